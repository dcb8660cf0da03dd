"""Refork under gunicorn: its arbiter, how it spawns, and what its workers do."""
