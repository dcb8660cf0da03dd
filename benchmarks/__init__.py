"""Benchmarks that the documentation quotes. Run as modules: `python -m benchmarks.heap`."""
