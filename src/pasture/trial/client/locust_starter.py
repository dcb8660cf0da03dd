"""Imports Locust once and forks a process for each load of a trial, one after the other.

    locust_starter.py FIFO

Each line of the FIFO is the path of a load's settings, as JSON. Runs in the load generator's
interpreter, as `python -m locust` would, and imports nothing of pasture. A load ends if this
process does.
"""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path:
    sys.path[0] = os.getcwd()  # noqa: PTH109 - and not this folder: its files take no module's place

import ctypes
import gc
import json
import signal
from os import fork, waitpid  # before Locust replaces them: gevent's need its loop in this process

_SET_PDEATHSIG = 1


def main(fifo: str) -> None:
    try:
        import gevent
        from locust.main import main as run_locust
    except ModuleNotFoundError as error:
        if error.name != "locust":
            raise
        sys.exit(f"{sys.executable}: No module named locust")
    gc.freeze()  # a load has no use for looking at these, and copies what it looks at
    with open(fifo, encoding="utf-8") as orders:  # noqa: PTH123
        for line in orders:
            path = json.loads(line)
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                settings = json.load(file)
            pid = fork()
            if pid == 0:
                _become_load(path, settings)
                gevent.reinit()
                run_locust()  # type: ignore[no-untyped-call]
                return
            waitpid(pid, 0)
            os.close(os.open(settings["ended_file"], os.O_WRONLY | os.O_CREAT, 0o600))


def _become_load(path: str, settings: dict[str, str]) -> None:
    """Take what the process of this load has for itself: session, variable, arguments, log."""
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    os.environ["PASTURE_LOAD"] = path
    sys.argv = ["locust", *settings["arguments"]]
    log = os.open(settings["log_file"], os.O_WRONLY | os.O_APPEND)
    for output in (1, 2):
        os.dup2(log, output)
    os.close(log)


if __name__ == "__main__":
    main(sys.argv[1])
