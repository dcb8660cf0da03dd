"""Things that must not cross a fork: `close` closes connections, `survey` reports what is left."""
