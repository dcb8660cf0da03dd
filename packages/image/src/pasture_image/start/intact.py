"""Whether the pages of an image are those that were written, without reading all at each start.

A service
reads all of it once a boot before it starts: that is recorded with the boot, the file's identity
and its times.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pasture.errors import ImageFailed
from pasture.trust import private_files

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
