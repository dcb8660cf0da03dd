"""Processes that a library would spawn, forked: `pasture run --fork-spawned -- python ...`.

`multiprocessing` spawns in one call, `_posixsubprocess.fork_exec`, and so does each library that
descends from it: billiard, multiprocess, loky. The first such call starts a template
(`serving.spawned`), by the library's own command; from then on the template forks. A process gets
the same open files under the same numbers, runs the same command, and reads the same messages: no
library has to be known. Threads, locks and CUDA of the program are no concern, for no process is
forked from it. Owns the program's side. Invariant: a process is forked only if a spawned one would
begin in the state in which the template has started. Else it is spawned, and the log says why,
each reason once.
"""

from __future__ import annotations

import _posixsubprocess
import atexit
import contextlib
import io
import json
import os
import pickle
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import context, forkserver
from pathlib import Path
from typing import Any

from pasture.errors import PastureError
from pasture.interpreter import native
from pasture.log_lines import log
from pasture.serving.spawned import FORKED, MAX_BYTES, MAX_FILES, Preparation, Server

_START_S = 300.0
"""For the import of the main module and the seal."""

# Of proc_pid_status(5): what a process has from the thread that spawns it.
_FROM_PARENT = frozenset(
    "Umask Uid Gid Groups SigBlk SigIgn CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp "
    "Cpus_allowed Mems_allowed".split()
)
_PER_PROCESS = ("name", "log_to_stderr", "log_level", "start_method", "authkey")
"""Of the preparation: what the template leaves to each process."""
_FORKSERVER = "pasture.servers.logged_forkserver"
_DEPTH = 3
"""Calls from `_launch` to `fork_exec`, at most."""


class NotForked(Exception):
    """A process is to be spawned; the text says why."""


@dataclass(frozen=True, slots=True)
class _Launch:
    """A process that is about to be spawned: what its `_launch` has prepared, and the call."""

    library: str  # module whose `prepare` begins the process
    preparation: Mapping[str, Any]
    pipe: int  # its end of the one that the messages come through
    trackers: frozenset[int]  # files of the trackers of resources: all processes have them
    call: tuple[Any, ...]

    @property
    def command(self) -> list[str]:
        return [*map(os.fsdecode, self.call[0])]

    @property
    def files(self) -> list[int]:
        return [*map(int, self.call[3])]

    @property
    def environment(self) -> dict[str, str]:
        given = self.call[5]
        if given is None:
            return dict(os.environ)
        return dict(os.fsdecode(one).split("=", 1) for one in given)


def install(preload: Callable[[], Iterable[str]] | None = None) -> None:
    """Fork what this program would spawn, from now on, or start from a forkserver of no list.

    Args:
        preload: names more modules for the template, once it is to start.
    """
    global _preload
    _preload = preload or _preload
    if _posixsubprocess.fork_exec is _fork_or_spawn:
        return
    _posixsubprocess.fork_exec = _fork_or_spawn
    atexit.register(_forget)  # before trackers of resources are waited for: a template keeps them
    kind: Any = context.ForkServerProcess
    kind._Popen = staticmethod(_forked_or(kind._Popen))


def seal_forkservers() -> None:
    """Have a forkserver that this process or a forked one starts sealed, whatever it preloads."""
    server_class: Any = forkserver.ForkServer
    ensure_running = server_class.ensure_running

    def ensure_sealed(server: Any) -> None:
        modules = server._preload_modules
        if _FORKSERVER not in modules:
            server._preload_modules = [*modules, _FORKSERVER]
        ensure_running(server)

    server_class.ensure_running = ensure_sealed


def _forked_or(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def start(process: Any) -> Any:
        server: Any = forkserver._forkserver
        if server._forkserver_pid is None and server._preload_modules == ["__main__"]:
            from multiprocessing import popen_spawn_posix  # pasture[auto] sees a spawn by it

            _forks_only.on = True
            try:
                return popen_spawn_posix.Popen(process)
            except NotForked as why:
                _say(why)
            finally:
                _forks_only.on = False
        return plain(process)

    return start


def _say(why: NotForked) -> None:
    if str(why) not in _said:
        _said.add(str(why))
        log.warning("processes are spawned, not forked: %s", why)


_fork_exec: Any = _posixsubprocess.fork_exec
_preload: Callable[[], Iterable[str]] = tuple
_forks_only = threading.local()
_said: set[str] = set()
has_forked = False
"""Whether a process was forked in place of a spawned one."""
_lock = threading.Lock()
_templates: dict[str, _Template] = {}
"""By library."""
_closed: dict[str, str] = {}
"""Why no process of a library is forked any more."""


def _fork_or_spawn(*call: Any) -> Any:
    launch = _launch_of(call)
    if launch is not None:
        try:
            return _template_for(launch).fork(launch)
        except NotForked as why:
            if getattr(_forks_only, "on", False):
                raise
            _say(why)
    return _fork_exec(*call)


def _launch_of(call: tuple[Any, ...]) -> _Launch | None:
    """What a `_launch` as multiprocessing's has prepared; None where none calls.

    Source: CPython 3.11 to 3.15 Lib/multiprocessing/popen_spawn_posix.py.
    """
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        there = frame.f_locals if frame.f_code.co_name == "_launch" else {}
        preparation, library = there.get("prep_data"), frame.f_globals.get("spawn", sys)
        is_python = bool(_interpreter([*map(os.fsdecode, call[0])]))
        if is_python and isinstance(preparation, dict) and hasattr(library, "prepare"):
            named = (there.get("tracker_fd"), preparation.get("mp_tracker_fd"))
            trackers = frozenset(one for one in named if isinstance(one, int))
            return _Launch(library.__name__, preparation, there["child_r"], trackers, call)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def _template_for(launch: _Launch) -> _Template:
    """The library's, started where there is none; raises NotForked where it does not fit."""
    state = _state(launch)
    with _lock:
        if why := _closed.get(launch.library):
            raise NotForked(why)
        if launch.library not in _templates:
            _templates[launch.library] = _Template(launch, state)
        template = _templates[launch.library]
    then = template.state
    if differs := [name for name in then.keys() | state if then.get(name) != state.get(name)]:
        raise NotForked(f"{min(differs)} has changed since the first one")
    return template


def _state(launch: _Launch) -> dict[str, object]:
    """What a spawned process has from this one, besides its work and the environment."""
    try:
        status = Path("/proc/thread-self/status").read_text()
        kernel = {name: Path("/proc/self", name).read_bytes() for name in ("limits", "cgroup")}
    except OSError as error:
        raise NotForked(f"the state of this process cannot be read: {error}") from None
    lines = dict(line.split(":", 1) for line in status.splitlines())
    prepared = launch.preparation.items()
    return {
        **{name: repr(value) for name, value in prepared if name not in _PER_PROCESS},
        **{name: value for name, value in lines.items() if name in _FROM_PARENT},
        **kernel,
        **{f"file {number}": _file(number) for number in range(3)},
        "the command of a spawned process": _interpreter(launch.command),
        "the niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "the scheduler": os.sched_getscheduler(0),
    }


def _interpreter(command: Sequence[str]) -> tuple[str, ...]:
    """The interpreter's own part of its command line."""
    return tuple(command[: next((i for i, one in enumerate(command) if one in ("-c", "-m")), 0)])


def _file(number: int) -> object:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_rdev


class _Template:
    """A template as the program sees it. The channel is closed on exec; a fork forgets it."""

    def __init__(self, launch: _Launch, state: Mapping[str, object]) -> None:
        self.state = state
        self._library, self._environment = launch.library, launch.environment
        self._busy = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_START_S)
        self._inode = os.fstat(self._channel.fileno()).st_ino
        work, write = os.pipe()
        with theirs, open(write, "wb") as file:  # noqa: PTH123
            pipe = re.compile(rf"(?<=pipe_handle=){launch.pipe}\b|^{launch.pipe}$")
            command = [pipe.sub(str(work), one) for one in launch.command]
            passed = (*sorted({work, theirs.fileno(), *launch.trackers}),)
            files = (*launch.call[1:3], passed, *launch.call[4:])
            try:
                self._pid = _fork_exec([*map(os.fsencode, command)], *files)
            finally:
                os.close(work)
            key = bytes(launch.preparation["authkey"])
            data = {**launch.preparation, "name": "MainProcess", "authkey": key}
            server = Server(theirs.fileno(), launch.library, tuple(_preload()))
            with contextlib.suppress(BrokenPipeError):  # it has ended: the answer says so
                file.write(_pickled(Preparation(data), server))
                file.flush()

    def fork(self, launch: _Launch) -> int:
        """The pid of a process that it forks in place of a spawned one. Raises NotForked."""
        global has_forked
        now, then = launch.environment, self._environment
        changed = {one: now.get(one) for one in then.keys() | now if then.get(one) != now.get(one)}
        given = {"command": launch.command, "numbers": launch.files, "changed": changed}
        request = json.dumps(given).encode()
        if len(launch.files) >= MAX_FILES or len(request) > MAX_BYTES:
            raise NotForked(f"it needs {len(launch.files)} open files, {len(changed)} variables")
        reader, writer = os.pipe()
        with open(reader, "rb") as pid, open(writer, "wb") as file:  # noqa: PTH123
            answer = self._ask(request, [file.fileno(), *launch.files])
            file.close()
            number = pid.read() if answer == FORKED else b""
        if answer.startswith("!"):  # about this one alone
            raise NotForked(answer[1:])
        if not number:
            ended = "what they are forked from has ended"
            self._end(ended if answer in ("", FORKED) else answer)
        has_forked = True
        return int(number)

    def _ask(self, request: bytes, files: Sequence[int]) -> str:
        try:
            with self._busy:
                before = native().adopt_orphans()  # one that was forked twice is this one's child
                try:
                    # A program that closes all files, as daemons do, has another one in its place.
                    if os.fstat(self._channel.fileno()).st_ino != self._inode:
                        self._channel.detach()
                        return ""
                    socket.send_fds(self._channel, [request], files)
                    return self._channel.recv(MAX_BYTES).decode()
                finally:
                    if not before:
                        native().adopt_orphans(False)
        except ConnectionError:
            return ""
        except TimeoutError:
            return f"what they are forked from has not answered for {_START_S:.0f} s"
        except (OSError, PastureError) as error:
            return str(error)

    def _end(self, why: str) -> None:
        _closed[self._library] = why
        self._channel.close()
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        raise NotForked(why)


def _pickled(*objects: Any) -> memoryview:
    buffer = io.BytesIO()
    for one in objects:
        pickle.dump(one, buffer)
    return buffer.getbuffer()


def _forget() -> None:
    """A template ends with its last channel."""
    for template in _templates.values():
        template._channel.close()
    _templates.clear()


def _in_child() -> None:
    """Another process has the templates; this one starts its own."""
    global _lock
    _lock = threading.Lock()
    _forget()


os.register_at_fork(after_in_child=_in_child)
