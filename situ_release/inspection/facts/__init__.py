"""Typed records of everything that a file or folder says about itself, one module per kind."""
