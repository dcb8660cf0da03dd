"""Faults under each engine, beside the same engine without pasture: `make soak-engines`."""
