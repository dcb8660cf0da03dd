"""Where trials keep what outlives them: environments of tools, and runs to go on with.

Owns the place and its safety. Everything in it may be deleted at any time, and is made again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pasture.errors import UsageError
from pasture.trust import private_files

HINT = "set XDG_CACHE_HOME to a folder of your own with room in it"

_POLL_S = 0.2
_NO_LOCKS = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))


def cache_folder() -> Path:
    """The folder, made if it is not there.

    Raises:
        UsageError: it cannot be made, or another user has a say in it.
    """
    base = _base()
    try:
        # Each of them: who may write to one can put a folder of his own in the next one's place.
        for folder in (base, base / "pasture", base / "pasture" / "trial"):
            private_files.make_folder(folder)
    except OSError as error:
        raise refused(base / "pasture" / "trial", error) from None
    return base / "pasture" / "trial"


def refused(path: Path, error: OSError) -> UsageError:
    """The error for what cannot be kept."""
    return UsageError(f"cannot keep anything in {path}: {error.strerror or error}", hint=HINT)


@contextlib.contextmanager
def locked(folder: Path, pause: Callable[[float], object]) -> Iterator[bool]:
    """Keep other trials of this user out of a folder; says whether that is so.

    False where the file system has no locks. The kernel gives the lock back if this process dies.

    Args:
        pause: sleeps for so many seconds while another has it; may raise to interrupt the wait.

    Raises:
        OSError: the folder cannot be opened.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield _lock(number, pause)
    finally:
        os.close(number)


def _lock(number: int, pause: Callable[[float], object]) -> bool:
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause(_POLL_S)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        else:
            return True


def _base() -> Path:
    """By the XDG Base Directory Specification, which has a relative path ignored."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageError("this user has no home folder", hint=HINT) from None
