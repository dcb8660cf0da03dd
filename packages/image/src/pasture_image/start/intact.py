"""Whether the pages of an image are those that were written, without reading all at each start.

Where the file system has fs-verity the kernel compares each page with a tree of hashes when it
reads it from the disk, and lets no process write to the file. Elsewhere a service reads all of it
once a boot before it starts: that is recorded with the boot, the file's identity and its times.

Source: Linux Documentation/filesystems/fsverity.rst, include/uapi/linux/fsverity.h.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

from pasture.errors import ImageFailed
from pasture.trust import private_files

_ENABLE_VERITY = 0x40806685
_GET_FLAGS = 0x80086601
_IS_PROTECTED = 0x00100000
_SHA256, _BLOCK_BYTES = 1, 4096
_ARGUMENT = struct.Struct("<4I112x")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def protect(path: Path) -> None:
    """Have the kernel compare each page of a file, for good.

    Raises:
        ImageFailed: its file system has no fs-verity.
    """
    argument = _ARGUMENT.pack(1, _SHA256, _BLOCK_BYTES, 0)
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, _ENABLE_VERITY, argument)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise ImageFailed(
                    f"{path} is there, but fs-verity cannot protect it: {error.strerror}",
                    hint="ext4, f2fs and btrfs can: tune2fs -O verity; or omit --verity",
                ) from None


def is_protected(path: Path) -> bool:
    """Whether the kernel compares each page of a file."""
    with path.open("rb") as file, suppress(OSError):
        (flags,) = struct.unpack("<q", fcntl.ioctl(file, _GET_FLAGS, bytes(8)))
        return bool(flags & _IS_PROTECTED)
    return False


def was_checked(path: Path) -> bool:
    """Whether all of a file has been compared in this boot, by this user, as it is.

    Raises:
        ImageFailed: the folder of records is another user's.
    """
    _make_folder()
    try:
        return _record_of(path).read_text() == _state(path)
    except OSError:
        return False


def note_checked(path: Path) -> None:
    """Record that all of a file has been compared, after `was_checked`."""
    private_files.write(_record_of(path), _state(path))


def _folder() -> Path:
    """The user's own, until the next boot."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "pasture"
    return Path(f"/tmp/pasture-{os.geteuid()}")


def _make_folder() -> None:
    path = _folder()
    try:
        private_files.make_folder(path)
        status = path.lstat()
    except OSError as error:
        raise ImageFailed(
            f"there is no folder for the record: {error}",
            hint="set XDG_RUNTIME_DIR to a folder of your own",
        ) from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ImageFailed(
            f"others may look into {path}", hint=f"chmod 700 {path}, if it is your own"
        )


def _record_of(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()
    return _folder() / f"checked-{name[:32]}"


def _state(path: Path) -> str:
    s = path.stat()
    numbers = (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
    return f"{_BOOT_ID.read_text().strip()} {' '.join(map(str, numbers))}\n"
