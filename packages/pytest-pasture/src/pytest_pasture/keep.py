"""The place of a kept process, and the runs that it can serve.

There is one kept process for each folder, set of options and interpreter. Its socket lies in a
folder of this user alone, and both ends ask the kernel for the other one's user before they read a
message. Two runs with the same name may still differ in what a process inherits: that is compared
when the second one greets.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pasture.trust import locks, private_files
from pasture.trust.unix_sockets import peer_of
from pytest_pasture.control import Channel, Hello, Kept, Stop, Unfit

OF_A_RUN = frozenset(
    (
        *("keyword", "markexpr", "deselect", "maxfail", "lf", "failedfirst", "newfirst"),
        *("last_failed_no_failures", "stepwise", "stepwise_skip", "stepwise_reset", "cacheclear"),
        *("verbose", "quiet", "tbstyle", "showlocals", "fulltrace", "durations", "durations_min"),
        *("reportchars", "color", "code_highlight", "xmlpath", "junitprefix", "no_header"),
        *("no_summary", "fold_skipped", "force_short_summary", "xfail_tb", "showcapture"),
        *("max_warnings", "pastebin", "basetemp", "randomly_seed", "random_order_seed"),
        *("numprocesses", "maxprocesses", "maxworkerrestart", "maxschedchunk", "dist", "distload"),
        *("tx", "loadscopereorder", "testrunuid", "loadgroup"),
        *("pasture", "pasture_report", "pasture_keep", "pasture_keep_stop", "fork_each"),
    )
)
"""Options that may differ in another run."""

OF_A_TERMINAL = frozenset(("_", "SHLVL", "OLDPWD", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST"))
"""Variables that may differ in another run."""

MAX_KEPT = 4
"""Kept processes of one folder; the one that was unused for longest ends."""

_ANSWER_LIMIT_S = 10.0
_NAMESPACES = ("mnt", "net", "pid", "user", "ipc", "uts")


class Place(NamedTuple):
    """Where the kept process of a run listens."""

    folder: Path
    root: str  # what the names of all kept processes of a folder begin with
    name: str

    @contextmanager
    def locked(self) -> Iterator[str]:
        """The path of the safe folder, locked against changes by other processes.

        Raises:
            OSError: it cannot be made, or is not this user's alone.
        """
        private_files.make_folder(self.folder)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise PermissionError(f"other users can access {self.folder}")
            locks.lock(descriptor)
            yield f"/proc/self/fd/{descriptor}"  # a path of any length fits in a socket's name
        finally:
            os.close(descriptor)

    def listen(self) -> socket.socket:
        """A socket that the next run finds; OSError if that fails."""
        with self.locked() as folder:
            if (kept := _connected(f"{folder}/{self.name}")) is not None:
                kept.close()
                raise OSError("another run is kept already")
            others = sorted(
                Path(folder).glob(f"{self.root}-*"), key=lambda one: one.lstat().st_mtime
            )
            for other in others[: max(0, len(others) - MAX_KEPT + 1)]:
                _stop(str(other))
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                Path(folder, self.name).unlink(missing_ok=True)
                listener.bind(f"{folder}/{self.name}")
                listener.listen()
            except BaseException:
                listener.close()
                raise
            return listener

    def connect(self) -> socket.socket | None:
        """A connection to the process that listens there; None without one.

        Raises:
            OSError: other users can access the folder, or one of them listens.
        """
        if not self.folder.is_dir():
            return None
        with self.locked() as folder:
            return _connected(f"{folder}/{self.name}")

    def greet(self, hello: Hello) -> tuple[Channel, int] | str | None:
        """The connection to a process that serves this run, and its pid; or why not."""
        try:
            connection = self.connect()
        except OSError as error:
            return f"{self.folder}: {error.strerror or error}"
        if connection is None:
            return None
        with connection:
            ours, theirs = Channel.pair()
            with theirs.socket:
                try:
                    Channel(connection).send(hello, theirs.socket.fileno(), 2)
                except OSError as error:
                    return f"the kept process does not answer: {error.strerror}"
            answer = Channel(connection).receive()
        if isinstance(answer, Kept):
            return ours, answer.pid
        ours.close()
        return answer.reason if isinstance(answer, Unfit) else None

    def stop(self) -> int:
        """End all that is kept for this folder; the number of collections."""
        if not self.folder.is_dir():
            return 0
        with self.locked() as folder:
            return sum(_stop(str(path)) for path in Path(folder).glob(f"{self.root}-*"))


def place_of(config: pytest.Config) -> Place:
    """The place of a kept process for a run with these options."""
    options = sorted(vars(config.option).items())
    identity = (
        *(sys.executable, sys.prefix, sys.version, sys.flags, sys.warnoptions, sys._xoptions),
        *(config.inipath, config.invocation_params.dir, config.args),
        {name: _plain(one) for name, one in options if name not in OF_A_RUN},
    )
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    above = Path(runtime or f"{tempfile.gettempdir()}/pasture-{os.geteuid()}")
    root = _digest(str(config.rootpath))
    return Place(above / "pytest-pasture", root, f"{root}-{_digest(repr(identity))}")


def limit_s(config: pytest.Config) -> float:
    """Time without a run after which a kept process ends.

    Raises:
        pytest.UsageError: the setting is not a number.
    """
    minutes = config.getini("pasture_keep_minutes")
    try:
        return 60 * float(minutes)
    except ValueError:
        raise pytest.UsageError(f"pasture_keep_minutes is not a number: {minutes!r}") from None


def hello_of(config: pytest.Config) -> Hello:
    """The state of this process that a child would inherit."""
    options = {name: value for name, value in vars(config.option).items() if name in OF_A_RUN}
    return Hello(options, dict(os.environ), dict(_conditions()))


def take_terminal(environment: Mapping[str, str]) -> None:
    """Take over the variables that may differ in another run."""
    for name in OF_A_TERMINAL:
        os.environ.pop(name, None)
        if name in environment:
            os.environ[name] = environment[name]


def difference(kept: Hello, new: Hello) -> str | None:
    """Why a collection for one run cannot serve another."""
    for name, value in new.conditions.items():
        if kept.conditions.get(name) != value:
            return f"{name} changed"
    for name in sorted(kept.environment.keys() | new.environment.keys()):
        if name not in OF_A_TERMINAL and not name.startswith("PYTEST_XDIST"):
            if kept.environment.get(name) != new.environment.get(name):
                return f"the environment's {name} changed"
    return None


def is_own_user(connection: socket.socket) -> bool:
    """Whether the other end is this user's, by the kernel."""
    return peer_of(connection)[1] == os.geteuid()


def _connected(path: str) -> socket.socket | None:
    """A connection to the process that listens there; without one None, and the file goes.

    Raises:
        PermissionError: another user's process listens.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_ANSWER_LIMIT_S)
    try:
        connection.connect(path)
        if not is_own_user(connection):
            raise PermissionError("another user's process listens there")
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        Path(path).unlink(missing_ok=True)
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def _stop(path: str) -> bool:
    """Whether a process listened there, which ends."""
    try:
        connection = _connected(path)
        if connection is None:
            return False
        with connection:
            Channel(connection).send(Stop())
            Channel(connection).receive()
    except OSError:
        return False
    Path(path).unlink(missing_ok=True)
    return True


def _conditions() -> Iterator[tuple[str, Any]]:
    """The state that a process inherits, by names for users."""
    mask = os.umask(0)
    os.umask(mask)
    yield "the umask", mask
    yield "the user", (os.getresuid(), os.getresgid(), sorted(os.getgroups()))
    yield "the working directory", str(Path.cwd())
    yield "the folder of temporary files", tempfile.gettempdir()
    yield "the search path of modules", list(sys.path)
    yield "the priority", os.getpriority(os.PRIO_PROCESS, 0)
    yield "the processors", sorted(os.sched_getaffinity(0))
    ignored = [one for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN]
    yield "the signals", (sorted(ignored), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    yield "the limits", {name: resource.getrlimit(getattr(resource, name)) for name in limits}
    with suppress(OSError):
        links = (Path(f"/proc/self/ns/{name}").readlink() for name in _NAMESPACES)
        yield "the namespaces", list(map(str, links))


def _plain(value: object) -> object:
    """A text that is the same in each process."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, str | int | float | bool | Path | None):
        return value
    return type(value).__qualname__


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
