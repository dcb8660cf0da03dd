"""The process that forks in place of spawned ones: the server's side of `servers.spawning`.

It begins as a spawned process does, up to where that one would take its work. There it is sealed,
and forks a process for each request, which goes on as the spawned one would: it takes its work,
and ends by the same `sys.exit`. It is forked twice, so that it is the program's own child.
Invariant: nothing of the program runs here but the import of its main module and of what is
preloaded, and nothing is forked from what a fork would break or that has changed on disk.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from multiprocessing import forkserver, resource_tracker, spawn, util
from types import ModuleType
from typing import Any, ClassVar

from pasture.errors import PastureError
from pasture.own_values import generators
from pasture.refork.mold import ForkFailed, fork_orphan
from pasture.scoreboard.recorder import recorder
from pasture.serving.learned import without_auto
from pasture.serving.sealer import Sealer, show_log
from pasture.serving.settings import ServerSettings, read_environment

MAX_FILES = 250
"""That the kernel passes with one message, about. Source: unix(7), SCM_MAX_FD."""

FORKED = "forked"
"""The answer to a request; any other one is the reason why nothing was forked."""

_HELD = frozenset((signal.SIGINT,))
"""A terminal sends it to this process, too. The program decides what becomes of its children."""


class Inherited:
    """An open file of the program, in the pickled process: multiprocessing's `DupFd`."""

    files: ClassVar[list[int]] = []

    def __init__(self, index: int) -> None:
        self.index = index

    def detach(self) -> int:
        """Its number in the process that was forked."""
        return self.files[self.index]


class Preparation(dict[str, Any]):
    """What a spawned process prepares itself with. Observed from before the main module's import:
    generators that seed themselves there are each process's own.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _observed, (dict(self),)


def _observed(data: dict[str, Any]) -> dict[str, Any]:
    generators.observe()
    return data


class Server:
    """Takes the place of the pickled process of a spawned one."""

    def __init__(self, channel: int) -> None:
        self._channel = channel

    def _bootstrap(self, parent_sentinel: int) -> int:
        """Fork as asked until the program ends. Returns in each new process, with its status."""
        generators.settle()
        generators.forget()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        show_log()
        try:
            settings = without_auto(read_environment())
        except PastureError as error:
            sys.exit(str(error))
        util._flush_std_streams()  # type: ignore[attr-defined]
        sealer = Sealer(settings, server=os.getppid)
        loaded: Mapping[str, object] = {}
        channel = socket.socket(fileno=self._channel)
        while True:
            request, files, *_ = socket.recv_fds(channel, len(FORKED), MAX_FILES)
            if not request:
                os._exit(0)  # functions of atexit are for those who do the work
            try:
                sealer.before_fork()
                row = recorder.forked()
                answer = _refusal(settings, sealer, loaded) or FORKED
                loaded = loaded or _loaded_files()
                if answer == FORKED and fork_orphan():
                    channel.close()
                    os.close(parent_sentinel)
                    recorder.begin(row)
                    return _work(files, mask)
            except (PastureError, ForkFailed, OSError) as error:
                answer = str(error)
            channel.send(answer.encode())
            for file in files:
                os.close(file)


def _refusal(settings: ServerSettings, sealer: Sealer, loaded: Mapping[str, object]) -> str:
    """Why a fork would not be as a spawned process is; "" if it would."""
    report = sealer.report
    if report is not None and settings.policy.heap and not report.sealed:
        return "what they are forked from is not sealed"
    hazards = () if report is None else report.hazards
    broken = next((str(one) for one in hazards if not one.survives), "")
    now = _loaded_files() if loaded and not broken else {}
    changed = next((path for path, stamp in loaded.items() if now.get(path, stamp) != stamp), "")
    return broken or (f"{changed} has changed" if changed else "")


def _loaded_files() -> dict[str, object]:
    """The file of each module, with what a change of it changes."""
    every: list[Any] = [*sys.modules.values()]
    modules = [one for one in every if issubclass(type(one), ModuleType)]
    # Not by the module's own attribute: a lazy one would be imported.
    spaces = [object.__getattribute__(one, "__dict__") for one in modules]
    paths = {path for space in spaces if isinstance(path := space.get("__file__"), str)}
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _work(files: list[int], mask: set[Any]) -> int:
    """Do what a spawned process does; returns its status. In the new process.

    Source: CPython 3.11 to 3.15 Lib/multiprocessing/spawn.py (`spawn_main`), forkserver.py.
    """
    work, life, tracker, *Inherited.files = files
    shared: Any = resource_tracker
    shared._resource_tracker._fd = tracker
    forkserver.write_signed(life, os.getpid())
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return int(spawn._main(work, os.dup(work)))
