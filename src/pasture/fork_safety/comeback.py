"""The threads that a forked child has again once the hooks of the fork have run.

One child is forked, lists its threads and exits. A thread is known by the code that it
runs.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable

_CHILD_S = 5.0
"""Timeout for a child's hooks: after it no thread counts as coming back."""

_returning: Counter[str] = Counter()
"""Threads that the child had, by their code."""


def target_of(thread: threading.Thread) -> str:
    """The code that a thread runs, as `package.module.function`."""
    code = getattr(thread, "_target", None) or type(thread)
    module = getattr(code, "__module__", "")
    return f"{module}.{getattr(code, '__qualname__', type(code).__qualname__)}"


def without_returning(threads: Iterable[threading.Thread]) -> list[threading.Thread]:
    """The threads that the child did not have again; all before `try_once`."""
    left = Counter(_returning)
    missing = []
    for thread in threads:
        target = target_of(thread)
        if left[target] > 0:
            left[target] -= 1
        else:
            missing.append(thread)
    return missing


def try_once() -> None:
    """Fork a child and note which threads it has. In the parent, before there are workers."""
    _returning.clear()
    # The program's handler would wait for a child that it does not know.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    try:
        _returning.update(_threads_of_child())
    except OSError:
        pass  # no process for it: nothing is known to come back
    finally:
        signal.sigtimedwait((signal.SIGCHLD,), 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _threads_of_child() -> list[str]:
    read, write = os.pipe()
    try:
        try:
            with warnings.catch_warnings():  # the warning of a fork next to threads may be an error
                warnings.simplefilter("ignore")
                pid = os.fork()
                if pid == 0:
                    _report(write)
        finally:
            os.close(write)
        found = _heard(read).split()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return found
    finally:
        os.close(read)


def _report(write: int) -> None:
    try:
        own = threading.current_thread()
        names = [target_of(thread) for thread in threading.enumerate() if thread is not own]
        os.write(write, "\n".join([*names, "."]).encode())
    finally:
        sys.stdout = sys.stderr = None  # nothing of the parent's is written twice
        os._exit(0)


def _heard(read: int) -> str:
    text = b""
    while not text.endswith(b".") and select.select([read], [], [], _CHILD_S)[0]:
        more = os.read(read, 1 << 16)
        if not more:
            return ""
        text += more
    return text.decode("utf-8", "replace").removesuffix(".") if text.endswith(b".") else ""
