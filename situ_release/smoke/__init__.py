"""Running the compiled runner: tiers, an independent reference, and the evidence they leave."""
