"""Reading again where a process ended meanwhile, as workers of a busy server do.

Standard library alone, since servers read themselves too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pasture.errors import ProcessEnded

T = TypeVar("T")


def read_again(
    read: Callable[[], T | None], tries: int, between: Callable[[], object] = lambda: None
) -> T | None:
    """What a reading gives that no end of a process has torn; None after so many tries.

    Args:
        read: returns None, or raises ProcessEnded, if a process ended meanwhile.
        tries: number of readings, at least 1.
        between: called after each torn reading but the last: a pause.

    Raises:
        ProcessEnded: the last reading did.
    """
    for left in reversed(range(tries)):
        try:
            found = read()
        except ProcessEnded:
            if not left:
                raise
        else:
            if found is not None:
                return found
        if left:
            between()
    return None
