"""Trials of new entries, once each, in copies of the parent that end afterwards.

Two processes are forked where the parent would build, and build the new entries in their order. An
entry is refused if it raises or has an effect, if it leaves an open file, a thread or a process, if
it prints, or if its values differ between the two copies: a random key, a time, a pid. Modules of
the standard library are left out of that comparison.

Invariant: both processes have ended, and were waited for, when `tried` returns.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, NoReturn

from pasture.fork_safety import native_threads
from pasture.fork_safety.open_files import name_of, open_files
from pasture.learning.build import TOTAL_S, build
from pasture.learning.file import OK
from pasture.learning.found import contents_of
from pasture.proc import memory_file
from pasture.proc.parent import end_with_parent

_GRACE_S = 5.0  # after a copy's own limit: C code that never returns to Python ignores the alarm

THERE = "is there already"  # the application or an earlier entry has imported it
_LATER = "is part of what was refused"  # the module is tried alone at the next start

_COPIES = 2
_MAX_COUNT = 1 << 31
_MAX_PARTS, _MAX_DEPTH = 2000, 6
_SCALARS = frozenset((str, bytes, int, float, bool, type(None), complex))
_CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
_COMPARED = frozenset((str, bytes, int, float, tuple))

Report = Mapping[str, tuple[str, str]]
"""The error of each entry or "", and a digest of the values of modules that it imported."""


def tried(lines: Sequence[str]) -> dict[str, str]:
    """The outcome of each entry; entries that found no time have none and may be tried again."""
    if not lines:
        return {}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))  # for servers that reap
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    copies: list[tuple[int, int]] = []
    try:
        for _ in range(_COPIES):
            copies.append(_fork(lines))
        deadline = monotonic() + TOTAL_S + _GRACE_S
        first, second = (_report(lines, _read(file, deadline)) for _, file in copies)
    except OSError:  # the system lacks a process or a file now
        return {}
    finally:
        for pid, file in copies:
            os.close(file)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    found = {}
    for line in (one for one in lines if one in first.keys() & second):
        (problem, values), (other_problem, other_values) = first[line], second[line]
        differs = "" if values == other_values else "makes other values in each process"
        found[line] = problem or other_problem or differs or OK
    return {line: outcome for line, outcome in found.items() if outcome != _LATER}


def _fork(lines: Sequence[str]) -> tuple[int, int]:
    """The pid of a copy that tries these entries, and the file to read its reports from."""
    parent, (reader, writer) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_a_copy(lines, parent, writer)
    os.close(writer)
    return pid, reader


def _be_a_copy(lines: Sequence[str], parent: int, writer: int) -> NoReturn:
    try:
        end_with_parent(parent)
        output = memory_file.create("pasture-trial")
        for number in (1, 2):
            os.dup2(output, number)
        for entry in chain(_steps(lines, output), (None,)):
            os.write(writer, json.dumps(entry).encode() + b"\n")
    finally:
        os._exit(0)


def _steps(lines: Iterable[str], output: int) -> Iterator[tuple[str, str, str]]:
    modules, before, printed = set(sys.modules), _Process.now(), 0
    spoiled: set[str] = set()
    for line, problem in build(lines):
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        size = os.fstat(output).st_size
        now = _Process.now()
        found = problem or now.left_since(before) or ("prints" if size > printed else "")
        new = sys.modules.keys() - modules
        if (name := line.removeprefix("module ")) in modules:
            found = _LATER if name in spoiled else THERE
        yield line, found, _digest(new)
        modules |= new
        spoiled |= new if found else set()
        before, printed = now, size


class _Process(NamedTuple):
    """State of a copy besides its memory, at one moment."""

    files: frozenset[int]
    threads: int
    has_child: bool

    @classmethod
    def now(cls) -> _Process:
        has_child = False
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            has_child = True
        files = frozenset(number for number, _ in open_files())
        return cls(files, len(os.listdir("/proc/self/task")), has_child)  # noqa: PTH208

    def left_since(self, before: _Process) -> str:
        if new := self.files - before.files:
            mapped = Path("/proc/self/maps").read_text(errors="replace")
            if any(name_of(file) not in mapped for file in new):  # the file of a loaded library
                return "keeps a file open"
        if self.has_child and not before.has_child:
            return "starts a process"
        if self.threads > before.threads and any(native_threads.hazards()):
            return "starts a thread"
        return ""


def _digest(modules: Iterable[str]) -> str:
    """A digest of module values that may differ between processes; small numbers are left out."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(modules):
        if name.partition(".")[0] not in sys.stdlib_module_names:
            values = [
                value
                for key, value in list(contents_of(sys.modules.get(name)).items())
                if type(value) in _COMPARED and not key.startswith("__")
                if type(value) is not int or value > _MAX_COUNT
            ]
            parts = sorted(islice(_parts(values, _MAX_DEPTH), _MAX_PARTS))
            found.update("\0".join((name, *parts, "")).encode(errors="replace"))
    return found.hexdigest()


def _parts(value: Any, depth: int) -> Iterator[str]:
    """Scalars and types of objects that a value is made of, in any order."""
    kind = type(value)
    if kind in _SCALARS:
        yield repr(value)
        return
    yield type.__repr__(kind)
    if kind in _CONTAINERS and depth:
        for part in chain.from_iterable(value.items()) if kind is dict else value:
            yield from _parts(part, depth - 1)


def _read(file: int, deadline: float) -> tuple[list[bytes], str]:
    """The lines that a copy has written, and why it stopped."""
    data = b""
    while (left_s := deadline - monotonic()) > 0:
        if select.select((file,), (), (), left_s)[0]:
            part = os.read(file, 1 << 16)
            if not part:
                return data.split(b"\n")[:-1], "ends the process"
            data += part
    return data.split(b"\n")[:-1], "takes too long"


def _report(lines: Sequence[str], read: tuple[list[bytes], str]) -> Report:
    """A copy's report on each entry. If it stops early, the next entry is to blame."""
    found: dict[str, tuple[str, str]] = {}
    for one in map(json.loads, read[0]):
        if one is None:
            return found
        found[one[0]] = (one[1], one[2])
    return found | {line: (read[1], "") for line in lines[len(found) :][:1]}
