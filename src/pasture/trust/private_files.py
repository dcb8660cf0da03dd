"""Files and folders that belong to this user alone: the only module that creates them.

A file appears only when it is complete: it is written next to its name and moved there in one step,
with mode 0600. Folders are made with mode 0700. Another user cannot redirect it: a folder that
another user owns or may write is refused (a sticky one, as /tmp, is not), a symbolic link of
another user is not followed, and only a plain file of this user is replaced. Safe before a fork and
in a sealed process. Errors are `OSError` with the reason as text.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pasture.errors import UsageError

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
_MIN_ROOM_BYTES = 1 << 20  # for logs, lists of requests and answers
_ANOTHER_FOLDER = "set TMPDIR to a folder of yours with room in it"
_MAX_NAME_CHARACTERS = 200  # the suffix gets the rest of 255


def write(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; text as UTF-8. OSError: an earlier file is unchanged."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with replacing(path) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, unbuffered, that takes its name if the block ends without an exception."""
    with _folder_of(path) as folder:
        _require_replaceable(path, folder)
        temporary = f".{path.name[:_MAX_NAME_CHARACTERS]}.{os.getpid()}-{os.urandom(4).hex()}.part"
        number = os.open(temporary, _NEW, FILE_MODE, dir_fd=folder)
        try:
            with os.fdopen(number, "wb", buffering=0) as file:
                yield file
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def create(path: Path) -> BinaryIO:
    """Open a new and empty file at once, for a log that is read while it is written.

    Removes an earlier file of this user. OSError: it cannot be created, or not safely.
    """
    with _folder_of(path) as folder:
        _require_replaceable(path, folder)
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        return os.fdopen(os.open(path.name, _NEW, FILE_MODE, dir_fd=folder), "wb")


def require_writable(path: Path) -> None:
    """Check that `write` would succeed, and leave nothing; raises as `write`."""
    with _folder_of(path) as folder:
        _require_replaceable(path, folder)
        probe = f".{path.name[:_MAX_NAME_CHARACTERS]}.{os.getpid()}-{os.urandom(4).hex()}.part"
        os.close(os.open(probe, _NEW, FILE_MODE, dir_fd=folder))
        os.unlink(probe, dir_fd=folder)


def make_folder(path: Path) -> None:
    """Make a folder and missing ones above it.

    Makes nothing behind a link of another user's. OSError: it cannot be made, or is not safe.
    """
    os.close(_opened_folder(path, is_made=True))


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder that is removed at the end of the block, with its content.

    Raises:
        UsageError: a place for temporary files is missing, not writable or full; or it became full
        before the end.
    """
    import shutil  # a sealed process needs neither
    import tempfile

    try:
        folder = tempfile.mkdtemp(prefix=prefix)
    except OSError as error:
        raise UsageError(
            f"no temporary folder can be made: {error}", hint=_ANOTHER_FOLDER
        ) from None
    try:
        _require_room(folder)
        yield Path(folder)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise UsageError(
            f"the temporary folder {folder} is full: {error}", hint=_ANOTHER_FOLDER
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_temporary_file(folder: str | None, hint: str) -> None:
    """Check that a temporary file can be made; UsageError with this hint if not."""
    import tempfile

    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"no temporary file can be made: {error}", hint=hint) from None


def _require_room(folder: str) -> None:
    """Raise if a folder is full; a file system without counts passes."""
    room = os.statvfs(folder)
    free_bytes = room.f_bavail * room.f_frsize
    if room.f_blocks and free_bytes < _MIN_ROOM_BYTES:
        raise UsageError(
            f"the temporary folder {folder} has room for no more than {free_bytes >> 10} KiB",
            hint=_ANOTHER_FOLDER,
        )


@contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    if path.name in ("", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = _opened_folder(path.parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _opened_folder(path: Path, *, is_made: bool = False) -> int:
    """Open a safe folder: from then on no other folder can take its place."""
    folder = _walk(path, is_made)
    try:
        _require_safe(path, os.fstat(folder))
    except BaseException:
        os.close(folder)
        raise
    return folder


def _walk(path: Path, is_made: bool) -> int:
    """Open a folder step by step, or make it, so that each link on the way is looked at."""
    left, links = list(reversed(path.parts)), 0
    at = os.open(".", _STEP)
    try:
        while left:
            name = left.pop()
            if is_made and not _is_there(name, at):
                with suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=at)
            if links <= _MAX_LINKS and _is_own_link(path, name, at):
                links += 1
                left += reversed(Path(os.readlink(name, dir_fd=at)).parts)
                continue
            following = os.open(name, _STEP, dir_fd=at)  # a link too many: ELOOP or ENOTDIR
            os.close(at)
            at = following
    except BaseException:
        os.close(at)
        raise
    return at


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_own_link(path: Path, name: str, folder: int) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        return False
    if status.st_uid not in trusted_users():
        raise _refused(path, f"{name!r} on the way is a symbolic link of user {status.st_uid}")
    return True


def _require_safe(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in trusted_users():
        raise _refused(path, f"the folder belongs to user {status.st_uid}")
    others = None if status.st_mode & stat.S_ISVTX else other_writers(status)
    if others is not None:
        raise _refused(path, f"{others} may write to the folder")


def other_writers(status: os.stat_result) -> str | None:
    """Users besides its owner who may write to a file or folder, in words, or None.

    This user's own group, without other members, does not count.
    """
    if status.st_mode & stat.S_IWOTH:
        return "every user"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in _own_groups():
        return f"group {status.st_gid}"
    return None


def _require_replaceable(path: Path, folder: int) -> None:
    """Raise unless the old file is missing or a plain file of this user."""
    try:
        status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path, "it exists and is not a plain file")
    if status.st_uid not in trusted_users():
        raise _refused(path, f"it belongs to user {status.st_uid}")


def trusted_users() -> frozenset[int]:
    """Ids of users whom this process trusts: its own, root, and the caller of sudo."""
    return frozenset({os.geteuid(), 0} | _called_by("SUDO_UID"))


def _own_groups() -> frozenset[int]:
    """Groups with no other member: root's, and the one of the same number as this user."""
    return trusted_users() & ({0, os.getegid(), *os.getgroups()} | _called_by("SUDO_GID"))


def _called_by(variable: str) -> set[int]:
    """The id of sudo's caller, or of the caller's group, from a variable; only for root."""
    called_by = os.environ.get(variable, "")
    is_id = os.geteuid() == 0 and called_by.isascii() and called_by.isdecimal()
    return {int(called_by)} if is_id else set()


def _refused(path: Path, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"not safe to write: {why}", str(path))
