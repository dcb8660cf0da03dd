"""Configuration of gunicorn: once it listens, and before it has forked, the n-th call fails."""

import os

import failing

control_socket_disable = True


def when_ready(server: object) -> None:
    if "PASTURE" not in os.environ:
        n, mode = map(int, os.environ["FAILURE_OF"].split())
        failing.calls(n, mode)
