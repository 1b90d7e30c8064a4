"""Measures manent beside the bare engine: `make bench`."""
