"""A process that serves the warm-up's requests once more, before any worker serves.

Forked from the process that is sealed: the standard library only. docs/probe.md is the user's page.
"""
