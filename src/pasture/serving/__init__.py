"""The common part of servers that fork: settings, the seal before a fork, a new start.

Knows no engine: `pasture.servers` has them and imports this.
"""
