"""What the engines run when they are measured: applications, jobs, drivers.

They are run in an engine's own environment, and import nothing of `benchmarks` but each other.
"""
