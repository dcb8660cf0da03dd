"""A new start of this server program, in the same process, without what its probe found broken.

Owns what a new start needs that the first one has changed: environment, working directory and
arguments as they were, and no file of its own left open. The pid stays, so service managers see one
process. Invariant: one start leaves out the warm-up, the next one pasture; there is no third.
An engine hands over itself what it keeps open for the new start, its listeners for instance.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pasture.serving.starter import starter

VARIABLE = "PASTURE_PROBE_FAILED"
"""From one start to the next: `LeftOut` as JSON. No variable of the user's."""

_MAX_CHARACTERS = 100_000  # the kernel takes 128 KiB, execve(2)
_STANDARD_STREAMS = 2

What = Literal["warm-up", "pasture", "entry", "entries"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The part that this start leaves out.

    Attributes:
        why: the difference that was found first.
        answers: dict of request to the status that the warm-up had, and its seconds.
    """

    what: What
    why: str
    answers: Mapping[str, tuple[int, float]]

    def __str__(self) -> str:
        return f"left out, since the probe of an earlier start failed: {self.why}"


Restart = Any
"""Called with a `LeftOut`; returns only if there cannot be another start."""


def parse(text: str | None) -> LeftOut | None:
    """Read the variable's value; None if it is none."""
    try:
        found = json.loads(text or "")
        answers = {name: (int(s), float(t)) for name, (s, t) in found["answers"].items()}
        return LeftOut(found["what"], str(found["why"]), answers)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _open_files() -> frozenset[int]:
    try:
        found = map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        return frozenset()
    return frozenset(filter(_is_open, found))


def _is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False  # the one that has listed them
    return True


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None  # it has been removed


earlier: LeftOut | None = parse(os.environ.pop(VARIABLE, None))
"""Of this start; None where nothing is left out."""

first_environ: Mapping[str, str] = dict(os.environ)
"""Of this process at its start."""

_directory = _working_directory()
_arguments = [starter(), *sys.orig_argv[1:]]
_files = _open_files()
_pid = os.getpid()


def is_run_by_pasture() -> bool:
    """Whether `pasture run` has started this program: its own arguments do not say so."""
    return sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("pasture.servers.")


def command_line() -> list[str]:
    """The command line of a new start, the program first."""
    return list(_arguments)


def is_without_pasture() -> bool:
    """Whether this start is the server's own, since no other has worked."""
    return earlier is not None and earlier.what == "pasture"


def is_without_warm_up() -> bool:
    """Whether this start serves no requests before the fork."""
    return earlier is not None and earlier.what in ("warm-up", "pasture")


def went_into_background() -> None:
    """The server has forked itself, and its first process has ended: this one is the program."""
    global _pid
    _pid = os.getpid()


def is_possible(arguments: Sequence[str] | None = None) -> bool:
    """Whether this process can be replaced, by `arguments` as of `again`."""
    command = arguments or _arguments
    if not command[0] or len(command) == 1 or command[-1] == "-":
        return False  # a prompt, or a program that was read from stdin
    return os.getpid() == _pid and not _is_of_multiprocessing()  # else the program is another's


def _is_of_multiprocessing() -> bool:
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def again(
    left_out: LeftOut,
    *,
    arguments: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: str | None = None,
    kept: Iterable[int] = (),
) -> None:
    """Replace this process by a new start of its program. Returns only where that is impossible.

    Args:
        arguments, environ, directory: of the new start; None for those of this process at its
            start.
        kept: files that the new start shall have.
    """
    if not is_possible(arguments):
        return
    command = list(arguments or _arguments)
    value = json.dumps(asdict(left_out))
    if len(value) > _MAX_CHARACTERS:
        value = json.dumps({**asdict(left_out), "answers": {}})
    variables = {**(first_environ if environ is None else environ), VARIABLE: value}
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    now = _working_directory()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    files: dict[int, bool] = {}
    try:
        files.update({file: os.get_inheritable(file) for file in _open_files()})
        _execute(command, variables, directory or _directory, frozenset(kept))
    except OSError:  # the program has been removed, for instance
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for file, inheritable in files.items():
            _set_inheritable(file, inheritable)
        if now is not None:
            with contextlib.suppress(OSError):
                os.chdir(now)


def _execute(
    command: list[str], variables: Mapping[str, str], directory: str | None, kept: frozenset[int]
) -> None:
    for file in _open_files():
        if file > _STANDARD_STREAMS and file not in _files:
            _set_inheritable(file, False)
    for file in kept:
        _set_inheritable(file, True)
    if directory is not None:
        os.chdir(directory)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    os.execve(command[0], command, variables)


def _set_inheritable(file: int, inheritable: bool) -> None:
    with contextlib.suppress(OSError):  # it may be closed by now
        os.set_inheritable(file, inheritable)
