"""What every engine needs of a server that forks: settings, the seal before a fork, a new start.

Knows no engine: those are in `pasture.servers`, which imports this.
"""
