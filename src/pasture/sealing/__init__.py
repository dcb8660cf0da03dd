"""The heap of a process that forks: policies, the seal, the child, the exit.

Standard library and the extension only: the process that is sealed imports this, and
whatever it imports is sealed in with it.
"""
