"""Objects of the standard library that a forked child repairs, so that they work there: executors
and listeners of logging whose threads stayed in the parent, what multiprocessing repairs in its own
children only, and processes that are not this one's children.

The hook comes after those of the modules: some forget at a fork what a new object would use. A step
that fails hinders no other. Imports nothing, and looks into `sys.modules`.

Source: CPython 3.11 to 3.15 Lib/concurrent/futures/thread.py and process.py,
Lib/multiprocessing/process.py and util.py, Lib/logging/handlers.py, Lib/queue.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakSet

_THREADS, _PROCESSES = "concurrent.futures.thread", "concurrent.futures.process"
_FORKING = ("multiprocessing.popen_fork", "multiprocessing.forkserver")
"""Modules that take these steps in their children themselves."""

_executors: WeakSet[Any] = WeakSet()
"""Executors with threads: a fork clears their module's list."""
_listeners: WeakSet[Any] = WeakSet()
_before: WeakSet[threading.Thread] | None = None
"""Threads of the engine and of its own imports."""
_is_noted = _is_passed_on = False
_modules = _hooks = 0


def begin() -> None:
    """Remember which threads run before the application is loaded. The first call counts."""
    global _before
    if _before is None:
        _before = WeakSet(threading.enumerate())


def note() -> None:
    """Note what each child repairs. In the parent, before the forks."""
    global _is_noted, _modules, _hooks
    _is_noted = True
    if len(sys.modules) != _modules:  # those of new modules come before the last one
        _modules, _hooks = len(sys.modules), _hooks + 1
        os.register_at_fork(after_in_child=partial(_hook, _hooks))
    for thread in _listed(_THREADS, "_threads_queues"):
        with suppress(AttributeError, LookupError, TypeError):
            _note(thread._args[0])
    for thread in _listed(_PROCESSES, "_threads_wakeups"):
        with suppress(AttributeError, TypeError):
            _note(thread.executor_reference)
    _listeners.update(filter(None, map(_listener_of, threading.enumerate())))


@contextmanager
def passed_on() -> Iterator[None]:
    """Fork in the `with` block a child that forks again and ends: its child repairs the objects."""
    global _is_passed_on
    _is_passed_on = True
    try:
        yield
    finally:
        _is_passed_on = False


def comes_back(thread: threading.Thread) -> bool:
    """Whether a child has the thread again, at once or at its first use."""
    return is_idle_in_executor(thread) or _listener_of(thread) is not None


def _listener_of(thread: threading.Thread) -> Any:
    """The listener of logging whose idle thread this is; None for another thread."""
    listener: Any = getattr(getattr(thread, "_target", None), "__self__", None)
    theirs: Any = _class("logging.handlers", "QueueListener")
    own: Any = type(listener)
    if thread in (_before or ()):
        return None
    with suppress(Exception):
        is_theirs = own.start is theirs.start and own._monitor is theirs._monitor
        if is_theirs and type(listener.queue).__module__ in ("queue", "_queue"):
            return listener if listener._thread is thread and listener.queue.empty() else None
    return None


def is_idle_in_executor(thread: threading.Thread) -> bool:
    """Whether it belongs to an idle executor, which starts threads in a child."""
    with suppress(AttributeError, LookupError, TypeError):
        executor = thread._args[0]()  # type: ignore[attr-defined]
        idle, threads = executor._idle_semaphore._value, executor._threads
        return thread in threads and idle == len(threads) and not executor._work_queue.qsize()
    return False


def _hook(number: int) -> None:
    if number == _hooks:  # the last one, after those of all modules
        put_in_order(sys._getframe(1))


def _listed(module: str, name: str) -> list[Any]:
    for _ in range(3):  # another thread may add one meanwhile
        with suppress(RuntimeError):
            return list(getattr(sys.modules.get(module), name, ()))
    return []


def _note(reference: Callable[[], Any]) -> None:
    executor = reference()
    if executor is not None:
        _executors.add(executor)


def put_in_order(caller: FrameType | None = None) -> None:
    """Repair what was inherited, in each child of the process that has noted it.

    Right after the fork. `caller` is the Python frame that forked, if any.
    """
    global _is_noted, _is_passed_on
    if not _is_noted or _is_passed_on:
        _is_passed_on = False
        return
    _is_noted = False
    for step in _steps(caller):
        with suppress(Exception):
            step()
    _executors.clear()
    _listeners.clear()


def _steps(caller: FrameType | None) -> Iterator[Callable[[], object]]:
    yield _forget_processes
    yield _forget_forkserver
    for executor in list(_executors):  # an executor with work stays as the fork has copied it
        if issubclass(type(executor), _class(_THREADS, "ThreadPoolExecutor")):
            yield partial(_empty_of_threads, executor)
        elif issubclass(type(executor), _class(_PROCESSES, "ProcessPoolExecutor")):
            yield partial(_empty_of_processes, executor)
    for listener in list(_listeners):
        yield partial(_listen_again, listener)
    after_forkers = getattr(sys.modules.get("multiprocessing.util"), "_run_after_forkers", None)
    forks_itself = caller is not None and caller.f_globals.get("__name__") in _FORKING
    if after_forkers is not None and not forks_itself:
        yield after_forkers


def _forget_processes() -> None:
    """Forget the parent's children: multiprocessing would end or await them at the exit."""
    children: set[Any] = getattr(sys.modules.get("multiprocessing.process"), "_children", set())
    children.difference_update([one for one in children if one._parent_pid != os.getpid()])


def _forget_forkserver() -> None:
    """Forget the parent's fork server, for which only the parent can wait."""
    server: Any = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if server is None or server._forkserver_pid is None:
        return
    os.close(server._forkserver_alive_fd)
    for name in ("pid", "alive_fd", "address", "authkey"):
        if hasattr(server, f"_forkserver_{name}"):
            setattr(server, f"_forkserver_{name}", None)


def _class(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, ())


def _empty_of_threads(executor: Any) -> None:
    is_of_one = any(thread.ident == threading.get_ident() for thread in executor._threads)
    is_ended = executor._shutdown or executor._broken
    if is_of_one or is_ended or executor._shutdown_lock.locked() or executor._work_queue.qsize():
        return
    _unlist(_THREADS, "_threads_queues", executor._threads)
    executor._threads.clear()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._work_queue = type(executor._work_queue)()


def _empty_of_processes(executor: Any) -> None:
    thread = executor._executor_manager_thread
    is_ended = executor._shutdown_thread or executor._broken
    if thread is None or is_ended or executor._shutdown_lock.locked():
        return
    if executor._pending_work_items:
        return
    _unlist(_PROCESSES, "_threads_wakeups", [thread])
    _class(_PROCESSES, "ProcessPoolExecutor").__init__(
        executor,
        executor._max_workers,
        executor._mp_context,
        executor._initializer,
        executor._initargs,
        max_tasks_per_child=executor._max_tasks_per_child,
    )


def _listen_again(listener: Any) -> None:
    """Start a listener's thread on a new queue: the old one may be locked."""
    lines = listener.queue
    if hasattr(lines, "mutex"):
        type(lines).__init__(lines, lines.maxsize)
    listener._thread = None
    listener.start()


def _unlist(module: str, name: str, threads: Iterable[Any]) -> None:
    """Remove threads that the end of the process would wake and join."""
    listed = getattr(sys.modules.get(module), name, {})
    for thread in threads:
        listed.pop(thread, None)
