"""One file for each family, named like it; see `conformance.family`."""
