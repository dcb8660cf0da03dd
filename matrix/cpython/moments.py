"""Full collections, seals and forks at random moments, inside of tests and between two.

A collection that the interpreter begins by itself comes anywhere in a test. Its callback asks for a
pending call, which runs before one of the next instructions, with the frames of the test alive.
There the process collects everything, or forks a child that seals, collects, and forks
in its turn. A seal changes what a later line of the test may assert of the life of its
objects, so in the process itself it comes between two tests alone.

A plain process does the same with what the interpreter has: collections, `gc.freeze()`, forks.
"""

from __future__ import annotations

import _thread
import builtins
import ctypes
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import traceback
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from recorder import Recorder

YOUNG_OBJECTS = 50
"""New objects after which the interpreter collects: few, so that short tests see a collection."""
OFTEN = {"collection": 30, "child": 2, "seal": 2}
"""Of N chances a module takes about the root of 2 * N times this one, spread to its end. A seal
keeps what it seals for good."""
CHILD_S = 50
"""Less than any module has, so a child that hangs fails its test, and the log has the place."""
PENDING_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
interpreters = import_module(
    "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
)
# Tests replace functions of these modules.
_fork, _waitpid, _exit, _alarm, _signal = os.fork, os.waitpid, os._exit, signal.alarm, signal.signal
_count_of_threads, _import = _thread._count, builtins.__import__


def _read(objects: list[object]) -> None:
    for one in objects:
        gc.get_referents(one)


class Moments:
    """Disturbs the tests that a recorder writes down.

    Args:
        seed: of the moments; where they lie depends on what else the process allocates, too.
        is_sealing: by pasture; else with what the interpreter has.
    """

    def __init__(self, recorder: Recorder, seed: str, *, is_sealing: bool) -> None:
        self._recorder = recorder
        self._random = random.Random(seed)
        self._is_asked = self._is_collecting = self._is_forking = False
        self._call = PENDING_CALL(self._in_a_test)  # kept, since C has its address
        self._seal: Callable[[], object] = gc.freeze
        self._collect: Callable[[], int] = gc.collect
        if is_sealing:
            import pasture

            self._seal, self._collect = pasture.seal, pasture.collect
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        gc.callbacks.append(self._after_a_collection)
        os.fork = self._fork_of_a_test

    def _fork_of_a_test(self) -> int:
        self._is_forking = True
        try:
            return _fork()
        finally:
            self._is_forking = False

    def end(self) -> None:
        os.fork = _fork
        gc.callbacks.remove(self._after_a_collection)
        self._recorder.note("moments", json.dumps(self.counts))

    def between_tests(self) -> bool:
        """Seals, now and then; never done."""
        if _is_alone() and self._is_time_for("seal"):
            self._seal()
        return False

    def _after_a_collection(self, phase: str, info: object) -> None:
        if phase == "stop" and not self._is_asked:
            self._is_asked = self._is_collecting = True
            self._ask()
            self._is_collecting = False

    def _ask(self) -> None:
        if ctypes.pythonapi.Py_AddPendingCall(self._call, None):
            self._is_asked = False  # too many wait

    def _in_a_test(self, nothing: object) -> int:
        if self._is_collecting:  # the interpreter was too quick: no collection begins in another
            self._ask()
            return 0
        try:
            if self._is_forking or len(interpreters.list_all()) > 1 or _would_wait_for_itself():
                # In a function of os.register_at_fork; or where CPython may crash by itself.
                return 0
            if sys.getprofile() is not None or builtins.__import__ is not _import:
                # The test would see this module's functions in its profile. No module can be
                # imported, and CPython crashes where it reports an error.
                return 0
            if _is_alone() and self._is_time_for("child"):
                self._fork()
            elif self._is_time_for("collection"):
                self._collect()
        except MemoryError:
            pass  # of a test that has allocations fail
        except Exception:
            self._recorder.fail(traceback.format_exc())
        finally:
            self._is_asked = False
        return 0

    def _is_time_for(self, what: str) -> bool:
        is_time = self._random.random() < OFTEN[what] / (OFTEN[what] + self.counts[what])
        self.counts[what] += is_time
        return is_time

    def _fork(self) -> None:
        pid = _fork()
        if not pid:
            self._as_child()
        _, status = _waitpid(pid, 0)
        if status:
            code = os.waitstatus_to_exitcode(status)
            self._recorder.fail(f"a child that was sealed inside of the test ended with {code}")

    def _as_child(self) -> NoReturn:
        """Seal, have a child read everything, go on, and leave."""
        code = 1
        try:
            _signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.register(signal.SIGALRM, file=2, chain=True)
            _alarm(CHILD_S)
            gc.callbacks.clear()
            self._seal()
            objects = gc.get_objects()
            pid = _fork()
            if not pid:
                _read(objects)
                self._collect()
                _exit(0)
            _, status = _waitpid(pid, 0)
            del objects
            self._collect()
            _read(gc.get_objects())
            code = 1 if status else 0
        except MemoryError:
            code = 0
        except BaseException:
            self._recorder.note("child", traceback.format_exc())
        finally:
            _exit(code)


def _would_wait_for_itself() -> bool:
    """Whether os.fork() would wait for a lock that this thread may hold: it does in any process."""
    pools = sys.modules.get("concurrent.futures.thread")  # or a part of it, while it is imported
    lock = getattr(pools, "_global_shutdown_lock", None)
    return lock is not None and lock.locked()


def _is_alone() -> bool:
    """Whether no other Python thread runs. Tests replace what the module threading knows, and the
    interpreter's list of frames would make objects of them, which keep what they hold.
    """
    return _count_of_threads() == 0
