"""`make pypy-check`: RPython's own tests, failure paths and the stress program on our collector."""
