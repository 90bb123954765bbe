"""The wheel: reading one, building, repairing, and recovering stage inputs from a published one."""
