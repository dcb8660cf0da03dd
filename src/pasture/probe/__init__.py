"""A process that serves the warm-up's requests once more, before any worker serves.

Owns the fork, the requests, the limits of time, and what counts as a failure. Forked from the
process that is sealed: the standard library only. docs/internals/warmup.md says what it finds and
what it cannot.
"""
