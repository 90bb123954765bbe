"""What changed between two wheels, payloads or pools: binaries first."""
