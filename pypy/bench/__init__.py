"""`make pypy-bench`: three collectors for RPython side by side."""
