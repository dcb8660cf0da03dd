"""The lock of a folder or a file, so that one process of this user at a time changes its content.

The kernel releases the lock if the process dies (flock(2)). Some file systems lack locks: there the
caller goes on without one, since files are written whole or not at all, and can report it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))
_POLL_S = 0.2


@contextmanager
def locked(
    path: Path, pause: Callable[[float], object] | None = None, poll_s: float = _POLL_S
) -> Iterator[bool]:
    """Lock a folder as long as the block runs, as `lock` does. OSError if it cannot be opened."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        is_locked = lock(number, pause, poll_s)
        yield is_locked
        if is_locked:
            # Explicitly: a process that was forked meanwhile has the descriptor, too.
            fcntl.flock(number, fcntl.LOCK_UN)
    finally:
        os.close(number)


def lock(
    number: int, pause: Callable[[float], object] | None = None, poll_s: float = _POLL_S
) -> bool:
    """Lock an open file or folder until its descriptor is closed; False without support for locks.

    Args:
        pause: sleeps for a number of seconds while another process has it; may raise to give up.
            Without it the thread waits in the kernel.
        poll_s: argument of `pause`.

    Raises:
        OSError: it cannot be locked for another reason.
    """
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (fcntl.LOCK_NB if pause is not None else 0))
        except BlockingIOError:
            assert pause is not None
            pause(poll_s)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        else:
            return True
