"""Event loops that were made before the fork: each worker's own, or a finding.

A fork shares the kernel's `epoll`, and the pair of sockets by which a thread wakes a loop of
asyncio: one worker would take what another one waits for. A loop of asyncio at which nothing waits
gets new ones in each worker. Any other `epoll` (of uvloop, of a reactor, of a selector) stays what
it is, and rules out forked workers.

Leans on CPython: `BaseSelectorEventLoop` has its epoll in `_selector`, and the pair in `_ssock`
and `_csock`, which `_make_self_pipe` makes and `_internal_fds` counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pasture.fork_safety.library import instances

_EPOLL = "anon_inode:[eventpoll]"


def idle(known: Iterable[Any]) -> tuple[list[Any], bool]:
    """Loops of asyncio that `renew` can serve; whether all open epolls are theirs.

    Args:
        known: loops that were found before. The seal has frozen them, so no search finds them.
    """
    left = set(_epolls())
    selector_events: Any = sys.modules.get("asyncio.selector_events")
    if not left or selector_events is None:
        return [], not left
    made = {*known, *instances([selector_events.BaseSelectorEventLoop])}
    found = [one for one in made if _is_idle(one)]
    return found, left <= {one._selector.fileno() for one in found}


def renew(loops: list[Any]) -> None:
    """In a worker: what it would share of each."""
    for loop in loops:
        shared = loop._selector, loop._ssock, loop._csock
        loop._selector = type(loop._selector)()
        loop._internal_fds -= 1
        loop._make_self_pipe()
        for one in shared:
            one.close()


def _is_idle(loop: Any) -> bool:
    """Whether it runs nothing, and waits for nothing but to be woken."""
    if loop.is_closed() or loop.is_running() or loop._ready or loop._signal_handlers:
        return False
    return list(loop._selector.get_map()) == [loop._ssock.fileno()]


def _epolls() -> Iterator[int]:
    for path in Path("/proc/self/fd").iterdir():
        try:
            if str(path.readlink()) == _EPOLL:
                yield int(path.name)
        except OSError:  # that of the folder itself
            continue
