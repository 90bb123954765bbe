"""The packages that are shipped: rendered from the templates, with synthetic binaries."""
