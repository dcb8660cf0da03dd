"""Requests that the parent serves before it forks, so that workers share what requests load.

Runs inside the server's first process: the standard library only. An application may do anything in
a request: hang, fork, take signals, end the process. `guard` and `process_state` protect the server
from it.
"""
