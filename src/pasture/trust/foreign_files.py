"""Files that another user may have made: the only module that opens them.

It refuses, before it reads: symbolic links, FIFOs, devices, files of users who are not named, and
files that are too large. So it follows no link and does not block. The caller must still distrust
the content.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pasture.errors import UsageError
from pasture.trust.private_files import other_writers, trusted_users

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20


def open_foreign(path: Path, *, most_bytes: int, owners: Iterable[int] | None = ()) -> int:
    """Open a plain file for reading; returns its descriptor.

    Args:
        owners: ids of users, besides this one and root, whose file it may be; None for any.

    Raises:
        UsageError: it is missing, has more than `most_bytes`, or may not be read.
    """
    try:
        number = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        raise _not_readable(path, getattr(error, "strerror", None) or str(error)) from None
    try:
        _require_plain(path, os.fstat(number), most_bytes, owners)
    except BaseException:
        os.close(number)
        raise
    return number


def read_foreign(path: Path, *, most_bytes: int, owners: Iterable[int] | None = ()) -> bytes:
    """The content of a plain file. Files of /proc, which are without a size, are read to their end.

    Args:
        most_bytes: more is an error, also if the file grows while it is read.
        owners: as for `open_foreign`, which documents the errors, too.
    """
    return _content(path, open_foreign(path, most_bytes=most_bytes, owners=owners), most_bytes)


def open_trusted(path: Path, *, most_bytes: int) -> int:
    """Open a file that controls this process: this user's, or root's.

    Follows links: a configuration often is one. Raises UsageError also if another user may write to
    the file.
    """
    try:
        number = os.open(path, _FLAGS & ~os.O_NOFOLLOW)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {path}: {why}", hint="check the file's name") from None
    try:
        status = os.fstat(number)
        _require_plain(path, status, most_bytes, ())
        if (others := other_writers(status)) is not None:
            raise UsageError(
                f"cannot use {path}: {others} may write to it",
                hint=f"see who wrote it, then: chmod go-w {path}",
            )
    except BaseException:
        os.close(number)
        raise
    return number


def read_trusted(path: Path, *, most_bytes: int) -> bytes:
    """The content of a file that `open_trusted` opens."""
    return _content(path, open_trusted(path, most_bytes=most_bytes), most_bytes)


def _content(path: Path, number: int, most_bytes: int) -> bytes:
    """The content of an open file, which is closed after it."""
    parts, left = [], most_bytes + 1
    try:
        while left > 0 and (part := os.read(number, min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        raise _not_readable(path, str(error)) from None
    finally:
        os.close(number)
    if left <= 0:
        raise _not_readable(path, f"it has more than {most_bytes:,} bytes")
    return b"".join(parts)


def user_of(pid: int) -> tuple[int, ...]:
    """The id of the user who owns a process, if that is known: for `owners`."""
    try:
        return (Path(f"/proc/{pid}").stat().st_uid,)
    except OSError:
        return ()


def _require_plain(
    path: Path, status: os.stat_result, most_bytes: int, owners: Iterable[int] | None
) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _not_readable(path, "it is not a plain file")
    if owners is not None and status.st_uid not in trusted_users() | set(owners):
        raise _not_readable(path, f"it belongs to user {status.st_uid}")
    if status.st_size > most_bytes:
        raise _not_readable(path, f"it has more than {most_bytes:,} bytes")


def _not_readable(path: Path, why: str) -> UsageError:
    if why == os.strerror(errno.ENOENT):
        return UsageError(f"cannot read {path}: {why}", hint="check the path")
    return UsageError(
        f"cannot read {path}: {why}",
        hint="it must be a plain file, no link, of this user, of root, or of the user of the "
        "process that is looked at",
    )
