"""Records what each child builds for itself, in one file to which all of them append.

A thread looks in each child, at intervals that grow without news. After a while without news the
child stops recording. Invariant: it keeps only names, so it extends the life of no object of the
program. The thread is the system's own also under gevent.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import get_native_id
from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, NoReturn

from pasture.learning import code, file, found
from pasture.observing import Finder


def original(module: str, name: str) -> Any:
    """The original attribute of a standard module, also under gevent's or eventlet's patches.

    Source: gevent 26.9 gevent/monkey, `saved`; eventlet 0.40 eventlet/patcher.py, `original`.
    """
    saved: Any = getattr(sys.modules.get("gevent.monkey"), "saved", {})
    eventlet = sys.modules.get("eventlet.patcher")
    now = import_module(module) if eventlet is None else eventlet.original(module)
    return saved.get(module, {}).get(name) or getattr(now, name)


allocate_lock = original("_thread", "allocate_lock")
start_new_thread = original("_thread", "start_new_thread")
sleep = original("time", "sleep")

QUIET_S = 120.0  # time without news after which a child stops
_FIRST_S, _MAX_S = 0.2, 10.0  # between two looks
_SHARE = 100  # looks take at most one part in this number of a child's time
_END_S = 1.0


class Recorder:
    """The recording of this process and of those that it forks. `recorder` is the only one.

    Attributes:
        is_on: this process records.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._path: Path | None = None
        self._size = 0
        self._shows_code = False
        self._of_parent: Collection[str] = ()
        self._owner = 0
        self._finder: Finder | None = None
        self._exit: Any = None
        self._reset()

    def _reset(self) -> None:
        self._thread = Path("/proc/self/task/0")  # the thread, once it runs
        self._asleep = allocate_lock()
        self._looking = allocate_lock()
        self._known: set[str] = set()
        self._codes: set[int] = set()
        self._imports: dict[str, None] = {}  # in the order in which imports began

    def watch(self, path: Path, size: int, known: Collection[str], *, shows_code: bool) -> None:
        """Have each child of this process record into a file. In the parent, before the seal.

        Args:
            size: of the file with the known entries, in bytes.
            shows_code: whether code that ran after the seal can be seen.
        """
        if self._path is None:
            os.register_at_fork(after_in_child=self.begin)
        self._path, self._size, self._shows_code = path, size, shows_code
        self._of_parent = frozenset((*known, *found.templates()))

    def begin(self) -> None:
        """Record from now on. The hook of a fork calls this; a child of C code must call it."""
        if self._owner == os.getpid() or self._path is None:
            return
        self._owner = os.getpid()
        self._leave()  # its parent may be a child that records
        try:
            self._begin()
        except Exception as error:  # Python would print a traceback of a hook
            self._give_up(error)

    def _begin(self) -> None:
        self._reset()
        self._finder = Finder(self._imports.setdefault)
        self._finder.install()
        self._asleep.acquire()
        self._exit = exit_now = os._exit

        def stop_and_exit(status: int) -> NoReturn:
            self.stop()
            exit_now(status)

        os._exit = stop_and_exit  # how processes of multiprocessing end, and RQ's after each job
        self.is_on = True
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        start_new_thread(self._run, (os.getpid(),))

    def stop(self) -> None:
        """Write the record and stop. Also for a process that becomes a parent itself."""
        if self.is_on:
            self.is_on = False
            with suppress(RuntimeError):  # the thread is awake
                self._asleep.release()
            self._look()
            self._leave()
            deadline = monotonic() + _END_S
            while self._thread.exists() and monotonic() < deadline:
                sleep(0.001)

    def _leave(self) -> None:
        self.is_on = False
        if self._finder is not None:
            self._finder.remove()
        if self._exit is not None:
            os._exit = self._exit
            self._exit = None

    def _run(self, own: int) -> None:
        wait_s, rest_s, news_at = _FIRST_S, 0.0, 0.0
        self._thread = Path(f"/proc/self/task/{get_native_id()}")
        while self.is_on and os.getpid() == own:
            if self._asleep.acquire(timeout=max(wait_s, rest_s)):
                return
            began_s = thread_time()
            if self._look():
                wait_s, news_at = _FIRST_S, monotonic()
            else:
                wait_s = min(wait_s * 2, _MAX_S)
            rest_s = (thread_time() - began_s) * _SHARE
            if news_at and monotonic() - news_at > QUIET_S:
                self._leave()

    def _look(self) -> bool:
        """Write new entries to the file; returns whether there were any."""
        with self._looking:
            try:
                known = (self._of_parent, self._known)
                new = [one for one in self._entries() if not any(one in each for each in known)]
                if new and self._path is not None:
                    file.append(self._path, new, self._size)
                self._known.update(new)
                return bool(new)
            except RuntimeError:
                return True  # a dictionary changed size: the next look sees it
            except Exception as error:
                self._give_up(error)
                return False

    def _entries(self) -> Iterator[str]:
        yield from found.modules(list(self._imports))
        yield from found.templates()
        if self._shows_code:
            ran = code.that_ran(self._codes)
            yield from found.patterns(one for _, one in ran)
            yield from dict.fromkeys(f"code {name}" for name, _ in ran)

    def _give_up(self, error: Exception) -> None:
        """Report to stderr why recording stops: at any moment, so without the log's locks."""
        text = f"pasture: auto: process {os.getpid()} records nothing more: {error}\n"
        with suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))
        self._leave()


recorder = Recorder()
