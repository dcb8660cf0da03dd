"""Objects of an application's import that its workers would share, or lack, after a fork.

A plain server imports the application in each worker: each has its own threads, locks, listeners,
processes. Compares lists of the kernel and the interpreter before and after the import, whatever
the packages are. Closes nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pasture.fork_safety import comeback, own_memory, streams, survey
from pasture.fork_safety.open_files import (
    Files,
    describe,
    is_locked,
    is_only_read,
    name_of,
    open_files,
    pipe_ends,
)
from pasture.fork_safety.origins import Origins
from pasture.proc import tree
from pasture.proc.maps import parse_maps
from pasture.proc.stat import read_stat
from pasture.reasons import SHARED, Hazard, Reason

_SELF = Path("/proc/self")
_IN_POST_FORK = "take it in each worker, in post_fork or at the first use"
_EACH = "make it in each worker"
_SET = "set it in each worker"
_START = "start it in each worker, in post_fork or at the first use"
_OF_MEMORY = ("/dev/zero", "/memfd:", "/dev/shm/")
_OWN_MEMORY = "/memfd:pasture"
_END_S = 2.0
"""Time for a process to end after SIGTERM."""

_TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
_SET_BY_ALL = frozenset((signal.SIGINT, signal.SIGTERM))
"""Signals that a server handles in its workers."""


class Import:
    """The import of an application in the parent, from the making of this on. One at a time.

    Args:
        signals: signals that the server handles after the import, in its workers or for them.
    """

    def __init__(self, signals: Collection[int] = ()) -> None:
        """Note the server's own objects, which are there before the import."""
        files = open_files()
        self._files = frozenset((what.st_dev, what.st_ino) for _, what in files)
        self._children, self._mapped, self._pipes = _children(), _shared_memory(), _pipes(files)
        self._timers = frozenset(_timers())
        self._handlers = _handlers()
        own = {number for number, (_, is_caught) in self._handlers.items() if is_caught}
        self._signals = _SET_BY_ALL.union(signals, own)
        self._hazards = Counter(survey.survey())
        self._is_tried = False
        self._origins = Origins()
        self._origins.start()

    def end(self) -> None:
        """Stop listening. Also after a failed import."""
        self._origins.stop()

    def undo(self) -> None:
        """End what the import is known to have started and created.

        Before this process starts again, and after its `atexit` functions, which run as at the end
        of a worker that has imported. Processes that they leave are ended, and files that the
        import has created exclusively are removed: else none of the workers could create them.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in _children() - self._children:
                with suppress(OSError):
                    os.kill(pid, number)
            deadline = time.monotonic() + _END_S
            while _children() - self._children and time.monotonic() < deadline:
                for pid in _children() - self._children:
                    with suppress(OSError):
                        os.waitpid(pid, os.WNOHANG)
                time.sleep(0.01)
        for path in self._origins.created:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108  no folder

    def hazards(self) -> tuple[Hazard, ...]:
        """Hazards that the import holds. In the parent. With threads the first call forks."""
        found = tuple(self._of_survey())  # it may collect garbage, which closes files
        files, children = open_files(), _children() - self._children
        memory = _shared_memory() - self._mapped
        # A process of the import may have mapped it.
        self._divided = own_memory.choose(frozenset() if children else memory)
        others = self._others(files, children, memory - self._divided)
        return (*found, *self._files_held(files), *others)

    def _of_survey(self) -> Iterator[Hazard]:
        """Threads, connections and hazards of libraries that a child does not have again."""
        others = [one for one in threading.enumerate() if one is not threading.current_thread()]
        if others and not self._is_tried:
            self._is_tried = True
            comeback.try_once()
        found = Counter(survey.survey_without_garbage()) - self._hazards
        for hazard in found.elements():
            if hazard.kind is Reason.THREAD:
                lines = (self._origins.of_thread(one) for one in others if one.name in hazard.what)
                yield replace(hazard, where=next(filter(None, lines), ""))
            else:
                yield hazard

    def _files_held(self, files: Files) -> Iterator[Hazard]:
        for number, what in files:
            if (what.st_dev, what.st_ino) in self._files:
                continue
            where = self._origins.of_file(number)
            name = name_of(number)
            if stat.S_ISSOCK(what.st_mode):
                one = describe(number)
                if one is not None and (one.is_listening or self._origins.is_bound(number)):
                    named = f"the socket bound to {one.own}"
                    yield _shared(named, Reason.LISTENER, where, _IN_POST_FORK)
            elif is_locked(number):
                yield _shared(f"the lock on {name}", Reason.LOCK, where, _IN_POST_FORK)
            elif (name, what.st_ino) in self._divided:
                continue
            elif stat.S_ISREG(what.st_mode) and not (what.st_nlink or name.startswith(_OF_MEMORY)):
                yield _shared(f"the temporary file {name}", Reason.FILE, where, _EACH)
            elif (line := self._origins.of_database(name)) is not None:
                if not is_only_read(number, files):
                    named = f"the SQLite database {name}"
                    yield _shared(named, Reason.DATABASE, line, _IN_POST_FORK)
        for path, where in self._origins.created.items():
            if os.path.lexists(path):
                named = f"{path}, which the import created for itself,"
                yield _shared(named, Reason.FILE, where, "create it in each worker")

    def _others(
        self, files: Files, children: frozenset[int], memory: frozenset[own_memory.Memory]
    ) -> Iterator[Hazard]:
        for inode in _pipes(files) - self._pipes:
            yield _shared(f"both ends of a pipe ({inode})", Reason.MEMORY, "", _EACH)
        for pid in children:
            named = f"process {pid} ({_name_of_process(pid)})"
            yield _shared(named, Reason.PROCESS, self._origins.of_process(), _START)
        for name, _ in memory:
            where = self._origins.created.get(name.removesuffix(" (deleted)"), "")
            yield _shared(f"shared memory ({name})", Reason.MEMORY, where, _EACH)
        if frozenset(_timers()) - self._timers:
            yield Hazard("a timer that the import has set", _SET, Reason.TIMER)
        for number, handler in _handlers().items():
            if number in self._signals and handler != self._handlers.get(number):
                named = f"the handler of {signal.Signals(number).name} that the import has set"
                yield Hazard(named, _SET, Reason.HANDLER, fate="is replaced by the worker's own")
        if any(streams.loops(are_foreign=False)):
            gc.collect()  # a loop that has run to its end may be garbage
            yield from streams.loops(are_foreign=False)


def _shared(what: str, kind: Reason, where: str, hint: str) -> Hazard:
    return Hazard(what, hint, kind, fate=SHARED, where=where)


def _children() -> frozenset[int]:
    """Children, except multiprocessing's resource tracker, which children share or replace.

    Source: proc_tid_children(5); without it all processes are asked for their parent.
    """
    tracker: Any = sys.modules.get("multiprocessing.resource_tracker")
    own = tracker and tracker._resource_tracker._pid
    try:
        lists = [(task / "children").read_text() for task in (_SELF / "task").iterdir()]
        return frozenset(int(pid) for text in lists for pid in text.split()) - {own}
    except OSError:  # a thread has ended meanwhile, or the kernel lacks it
        with suppress(OSError):
            return frozenset(tree.children(os.getpid())) - {own}
    return frozenset()


def _name_of_process(pid: int) -> str:
    with suppress(OSError):
        found = read_stat(pid)
        return found.name if found is not None else "ended"
    return "unknown"


def _shared_memory() -> frozenset[own_memory.Memory]:
    """Name and inode of each writable mapping that a fork shares, except of lasting files."""
    try:
        maps = parse_maps((_SELF / "maps").read_text("utf-8", "replace"))
    except OSError:
        return frozenset()
    return frozenset(
        (one.path, one.inode)
        for one in maps
        if one.permissions[1] == "w" and one.permissions[3] == "s"
        if one.path.startswith(_OF_MEMORY) or one.path.endswith(" (deleted)")
        if not one.path.startswith(_OWN_MEMORY)
    )


def _pipes(files: Files) -> frozenset[int]:
    """Inodes of the pipes with both ends here: what one worker writes, another would read. libev
    makes the pipes of a hub of gevent again in each child.
    """
    return frozenset(set.intersection(*pipe_ends(files)))


def _timers() -> Iterator[object]:
    """Timers that run. No child inherits one."""
    yield from (name for name in _TIMERS if signal.getitimer(getattr(signal, name))[0])
    with suppress(OSError):
        yield from (_SELF / "timers").read_text().splitlines()


def _handlers() -> Mapping[int, tuple[object, int]]:
    """The handler of each signal: a Python object, and whether C code handles it.

    A plain worker sets the server's handlers first, and its import then replaces them.
    """
    caught = 0
    with suppress(OSError):
        lines = (_SELF / "status").read_text().splitlines()
        caught = next(int(line[7:], 16) for line in lines if line.startswith("SigCgt:"))
    return {
        number: (signal.getsignal(number), caught >> number - 1 & 1)
        for number in signal.valid_signals()
    }


def wait_for_imports(limit_s: float) -> str:
    """Wait while other threads import; the name of a module that one still imports, or "".

    Its lock would stay locked in a child. Source: CPython Lib/importlib/_bootstrap.py.
    """
    deadline = time.monotonic() + limit_s
    while (name := _imported_elsewhere()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return name


def _imported_elsewhere() -> str:
    locks: Any = vars(sys.modules["_frozen_importlib"])["_module_locks"]
    own = threading.get_ident()
    for name, reference in list(locks.items()):
        lock = reference()
        if lock is not None and lock.owner not in (None, own):
            return str(name)
    return ""
