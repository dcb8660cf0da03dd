"""Starting this server program anew, in the same process, without what its probe found to break it.

Owns what a new start needs that the first one has changed: environment, working directory and
arguments as they were, and no file of its own left open. The pid stays, so service managers see one
process. Invariant: one start leaves out the warm-up, the next one pasture; there is no third.

What an engine keeps open for the new start, its listeners for instance, it hands over itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn

VARIABLE = "PASTURE_PROBE_FAILED"
"""From one start to the next: `LeftOut` as JSON. No variable of the user's."""

_MOST_CHARACTERS = 100_000  # the kernel takes 128 KiB, execve(2)
_STANDARD_STREAMS = 2

What = Literal["warm-up", "pasture"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What this start leaves out.

    Attributes:
        what: the warm-up alone, or all of pasture.
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
        return frozenset(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    except OSError:
        return frozenset()


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None  # it has been removed


earlier: LeftOut | None = parse(os.environ.pop(VARIABLE, None))
"""What this start leaves out; None for nothing."""

first_environ: Mapping[str, str] = dict(os.environ)
"""Of this process at its start."""

_directory = _working_directory()
_arguments = [sys.executable, *sys.orig_argv[1:]]
_files = _open_files()


def is_without_pasture() -> bool:
    """Whether this start is the server's own, since no other has worked."""
    return earlier is not None and earlier.what == "pasture"


def is_without_warm_up() -> bool:
    """Whether this start serves no requests before the fork."""
    return earlier is not None


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
        arguments: the program and its arguments; None for those of this process.
        environ: None for that of this process at its start.
        directory: as `environ`.
        kept: files that the new start shall have.
    """
    command = list(arguments or _arguments)
    if not command[0] or len(command) == 1 or command[-1] == "-":
        return  # a prompt, or a program that was read from stdin
    told = json.dumps(asdict(left_out))
    if len(told) > _MOST_CHARACTERS:
        told = json.dumps({**asdict(left_out), "answers": {}})
    variables = {**(first_environ if environ is None else environ), VARIABLE: told}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    _execute(command, variables, directory or _directory, frozenset(kept))


def _execute(
    command: list[str], variables: Mapping[str, str], directory: str | None, kept: frozenset[int]
) -> NoReturn:
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
    try:
        os.set_inheritable(file, inheritable)
    except OSError:
        return  # the one that has listed them
