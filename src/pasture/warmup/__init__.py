"""Requests that the parent serves before it forks, so that what they load is shared.

Runs inside of the server's first process: the standard library only. An application may do
anything in a request: hang, fork, take signals, end the process. `guard` and `process_state`
keep that from the server.
"""
