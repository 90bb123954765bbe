"""What belongs in a bundle: recipe, selection, lock, manifest, staged payload. Knows no wheels."""
