"""Measurements of running processes, from outside: memory, process trees, samples over time.

Nothing here writes to a process, and nothing needs more than the right to read its `/proc`
entries. Measurements are frozen dataclasses; what a process looked like is never kept in
an object that can change later.
"""
