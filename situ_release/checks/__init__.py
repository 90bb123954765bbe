"""Findings about a wheel: stable ids, each check in one function, one result model."""
