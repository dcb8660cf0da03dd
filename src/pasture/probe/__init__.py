"""A process that serves the warm-up's requests once more, before any worker serves.

Owns the proof that a child of the sealed process answers as its parent did: the fork, the replay,
the comparison and the limits of time. Forked from the process that is sealed: the standard library
only. docs/internals/warmup.md says what it finds and what it cannot.
"""
