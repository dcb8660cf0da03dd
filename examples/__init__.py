"""Programs to learn from; each runs by itself, sealed and with `--plain`."""
