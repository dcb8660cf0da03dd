"""Processes that `multiprocessing` would spawn, forked: `pasture run --fork-spawned -- python ...`.

A program's first one has a server started (`servers.spawned`), which is spawned itself. Threads,
locks and CUDA of the program are no concern: no process is forked from it. Owns the program's
side. Invariant: a process is forked only if a spawned one would begin in the state in which the
server has started. Else it is spawned, and the log says why, each reason once.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from multiprocessing import (
    context,
    forkserver,
    popen_spawn_posix,
    reduction,
    resource_tracker,
    spawn,
    util,
)
from pathlib import Path
from typing import Any, ClassVar

from pasture.errors import PastureError
from pasture.interpreter import native
from pasture.log_lines import log
from pasture.servers.spawned import FORKED, MAX_FILES, Inherited, Preparation, Server

_START_S = 300.0
"""For the import of the main module and the seal."""

_ANSWER_BYTES = 1 << 16

# Of proc_pid_status(5): what a process has from the thread that spawns it.
_FROM_PARENT = frozenset(
    "Umask Uid Gid Groups SigBlk SigIgn CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp "
    "Cpus_allowed Mems_allowed".split()
)
_PER_PROCESS = ("name", "log_to_stderr", "log_level", "start_method", "authkey")
"""Of the preparation: what the server leaves to each process."""


class NotForked(Exception):
    """A process is to be spawned; the text says why."""


def install() -> None:
    """Fork what this program would spawn, from now on, or start from a forkserver of no list."""
    kinds: Any = {context.SpawnProcess: lambda: True, context.ForkServerProcess: _is_plain}
    for kind, is_open in kinds.items():
        kind._Popen = staticmethod(_forked_or(kind._Popen, is_open))


def _is_plain() -> bool:
    """Whether the program leaves its forkserver as it is, and has not started it."""
    server: Any = forkserver._forkserver
    return server._forkserver_pid is None and server._preload_modules == ["__main__"]


def _forked_or(plain: Callable[[Any], Any], is_open: Callable[[], bool]) -> Callable[[Any], Any]:
    def start(process: Any) -> Any:
        try:
            if is_open():
                return _Forked(process)
        except NotForked as why:
            if str(why) not in _said:
                _said.add(str(why))
                log.warning("processes are spawned, not forked: %s", why)
        return plain(process)

    return start


_said: set[str] = set()
has_forked = False
"""Whether a process was forked in place of a spawned one."""
_lock = threading.Lock()
_server: _Link | None = None
_closed = ""
"""Why no process is forked any more."""


class _Forked(popen_spawn_posix.Popen):
    """Source: CPython 3.14 Lib/multiprocessing/popen_spawn_posix.py."""

    DupFd: ClassVar[Any] = Inherited
    _fds: list[int]

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return len(self._fds) - 1

    def _launch(self, process: Any) -> None:
        data = spawn.get_preparation_data(process._name)
        server = _server_for(data)
        pickles = _pickled(self, data, process)
        with contextlib.ExitStack() as passed:
            parent_r, child_w = os.pipe()
            passed.callback(os.close, child_w)
            child_r, parent_w = os.pipe()
            passed.callback(os.close, child_r)
            ends: Any = (parent_r, parent_w)
            self.finalizer = util.Finalize(self, _close, ends)
            try:
                server.fork([child_r, child_w, _tracker(), *self._fds])
            except NotForked:
                self.finalizer()
                raise
        self.sentinel = parent_r
        self.pid = forkserver.read_signed(parent_r)
        with open(parent_w, "wb", closefd=False) as file:
            file.write(pickles)


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def _tracker() -> int:
    number = resource_tracker.getfd()
    assert number is not None
    return number


def _pickled(popen: Any, *objects: Any) -> memoryview:
    buffer = io.BytesIO()
    context.set_spawning_popen(popen)
    try:
        for one in objects:
            reduction.dump(one, buffer)
    finally:
        context.set_spawning_popen(None)
    return buffer.getbuffer()


def _server_for(data: Mapping[str, Any]) -> _Link:
    """The server, started if need be; raises NotForked where it does not fit."""
    global _server
    state = _state(data)
    with _lock:
        if _closed:
            raise NotForked(_closed)
        if _server is None:
            _server = _Link(state)
        server = _server
    then = server.state
    if differs := [name for name in then.keys() | state if then.get(name) != state.get(name)]:
        raise NotForked(f"{min(differs)} has changed since the first one")
    return server


def _state(data: Mapping[str, Any]) -> dict[str, object]:
    """Everything that a spawned process has from this one, except its work."""
    try:
        status = Path("/proc/thread-self/status").read_text()
        kernel = {name: Path("/proc/self", name).read_bytes() for name in ("limits", "cgroup")}
    except OSError as error:
        raise NotForked(f"the state of this process cannot be read: {error}") from None
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return {
        **{f"the variable {name!a}": value for name, value in os.environ.items()},
        **{name: repr(value) for name, value in data.items() if name not in _PER_PROCESS},
        **{name: value for name, value in lines.items() if name in _FROM_PARENT},
        **kernel,
        **{f"file {number}": _file(number) for number in range(3)},
        "the command of a spawned process": tuple(map(os.fsdecode, _command())),
        "the niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "the scheduler": os.sched_getscheduler(0),
    }


def _command(**handles: int) -> list[Any]:
    return [spawn.get_executable(), *spawn.get_command_line(**handles)[1:]]


def _file(number: int) -> object:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_rdev


class _Link:
    """The server as the program sees it. The channel is closed on exec; a fork forgets it."""

    def __init__(self, state: Mapping[str, object]) -> None:
        self.state = state
        self._busy = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_START_S)
        tracker = _tracker()
        work, write = os.pipe()
        with theirs, open(write, "wb") as file:  # noqa: PTH123
            try:
                command = _command(tracker_fd=tracker, pipe_handle=work)
                files = [work, theirs.fileno(), tracker]
                self._pid = util.spawnv_passfds(command[0], command, files)
            finally:
                os.close(work)
            data = Preparation(spawn.get_preparation_data("MainProcess"))
            with contextlib.suppress(BrokenPipeError):  # it has ended: the answer says so
                file.write(_pickled(popen_spawn_posix, data, Server(theirs.fileno())))
                file.flush()

    def fork(self, files: list[int]) -> None:
        """Have it fork a process that gets these files. Raises NotForked."""
        global has_forked
        if len(files) > MAX_FILES:
            raise NotForked(f"it needs {len(files)} open files")
        try:
            with self._busy:
                before = native().adopt_orphans()  # one that was forked twice is this one's child
                try:
                    socket.send_fds(self._channel, [FORKED.encode()], files)
                    answer = self._channel.recv(_ANSWER_BYTES).decode()
                finally:
                    if not before:
                        native().adopt_orphans(False)
        except ConnectionError:
            answer = ""
        except TimeoutError:
            answer = f"what they are forked from has not answered for {_START_S:.0f} s"
        except (OSError, PastureError) as error:
            answer = str(error)
        if answer != FORKED:
            self._end(answer or "what they are forked from has ended")
        has_forked = True

    def _end(self, why: str) -> None:
        global _closed
        _closed = why
        self._channel.close()
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        raise NotForked(why)

    def forget(self) -> None:
        self._channel.close()


def _in_child() -> None:
    """Another process has the server; this one starts its own."""
    global _server, _lock
    _lock = threading.Lock()
    if _server is not None:
        _server.forget()
        _server = None


os.register_at_fork(after_in_child=_in_child)
