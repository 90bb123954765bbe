"""What exists on disk: cubins, runners, metadata headers, pools and snapshots. Knows no policy."""
