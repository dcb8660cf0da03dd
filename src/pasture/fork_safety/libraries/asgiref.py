"""asgiref: the thread for synchronous code without a context of its own.

Django's handler has a context for each request; code of Channels, and any other that calls
`sync_to_async`, shares this thread, which never ends by itself, and its connections to databases.
In a child the executor would count on a thread that is not there, and wait for ever.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from pasture.fork_safety import kept
from pasture.fork_safety.library import Closing, Library

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_IDLE_S = 0.5
_END_S = 1.0
_POLL_S = 0.001


def _end_thread(problems: list[str]) -> int:
    """End the thread if it waits for work; the next call starts another, in any process."""
    sync = sys.modules.get("asgiref.sync")
    owner: Any = getattr(sync, "SyncToAsync", None)
    if owner is None:
        return 0
    from concurrent.futures import ThreadPoolExecutor  # there: asgiref has imported it

    executor = getattr(owner, "single_thread_executor", None)
    # Another package's thread, or a greenlet under gevent's patches, is left alone.
    if type(executor) is not ThreadPoolExecutor:
        return 0
    if not executor._threads:
        return 0
    running = {thread.ident for thread in executor._threads} & sys._current_frames().keys()
    if not running:  # it was this process's parent's
        owner.single_thread_executor = ThreadPoolExecutor(max_workers=1)
        return 0
    if not _waits(executor):
        return 0
    owner.single_thread_executor = ThreadPoolExecutor(max_workers=1)
    executor.shutdown(wait=True)
    deadline = time.monotonic() + _END_S
    while running & sys._current_frames().keys() and time.monotonic() < deadline:
        time.sleep(_POLL_S)  # a thread that has been joined may still have its state
    return 1


def _waits(executor: ThreadPoolExecutor) -> bool:
    """Whether the thread has neither work nor a transaction, whose connection it would lose."""
    try:
        asked = executor.submit(_close_connections)
    except RuntimeError:  # it has been shut down
        return True
    try:
        return asked.result(timeout=_IDLE_S)
    except Exception:  # it works, or its connections cannot be asked
        asked.cancel()
        return False


def _close_connections() -> bool:
    """Runs in the thread; returns whether it may end."""
    connections = kept.django_connections()
    if any(map(kept.is_in_transaction, connections)):
        return False
    for connection in connections:
        connection.close()
    return True


CARD = Library(
    package="asgiref", closings=(Closing("asgiref_threads", _end_thread, to_database=True),)
)
