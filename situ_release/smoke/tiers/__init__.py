"""The tiers: for each what it needs, what it asks child processes, and what their answers mean."""
