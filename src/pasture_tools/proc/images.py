"""Programs out of images: the image of a process, and the processes of an image."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pasture.errors import UsageError
from pasture.proc.maps import Mapping, read_maps

MAGIC = b"PSIMAGE"
"""First bytes of an image."""


def find_image(pid: int, mappings: Iterable[Mapping]) -> Mapping | None:
    """The first mapping of a program's image, or None."""
    seen: set[str] = set()
    for mapping in mappings:
        if mapping.is_file and mapping.path not in seen:
            seen.add(mapping.path)
            if _begins_as_image(pid, mapping):
                return mapping
    return None


def image_of(pid: int) -> Mapping:
    """The image of a program that a user names.

    Raises:
        UsageError: it does not run out of an image.
    """
    found = find_image(pid, mappings_of(pid))
    if found is None:
        raise UsageError(f"process {pid} does not run out of an image", hint="give the image")
    return found


def programs_of(image: Mapping, pids: Iterable[int]) -> tuple[int, ...]:
    """The processes that have mapped an image, ascending.

    Args:
        image: any mapping of it. Programs in other containers may see another path.
    """
    return tuple(sorted(pid for pid in pids if any(_is_same(m, image) for m in mappings_of(pid))))


def mapping_of(image: Path) -> Mapping:
    """An image in a file, as programs map it.

    Raises:
        UsageError: the file does not exist.
    """
    try:
        inode = image.stat().st_ino
    except OSError as error:
        raise UsageError(
            f"{image} cannot be read: {error.strerror}", hint="give an image, or a program's pid"
        ) from None
    return Mapping(0, 0, "r--p", str(image.resolve()), inode=inode)


def _is_same(mapping: Mapping, image: Mapping) -> bool:
    is_in_memory = mapping.path.startswith("/memfd:")  # its inode may equal any file's
    return mapping.inode == image.inode and mapping.is_file and not is_in_memory


def mappings_of(pid: int) -> tuple[Mapping, ...]:
    """The mappings of a process; empty if it has ended, or is another user's."""
    try:
        return read_maps(pid)
    except OSError:
        return ()


def _begins_as_image(pid: int, mapping: Mapping) -> bool:
    try:
        file = open_mapped(pid, mapping)
    except OSError:
        return False
    try:
        return os.pread(file, len(MAGIC), 0) == MAGIC
    except OSError:
        return False
    finally:
        os.close(file)


def open_mapped(pid: int, mapping: Mapping) -> int:
    """Open the file that is mapped.

    Root finds it by the mapping; other users by its path, unless that file was replaced.

    Raises:
        OSError: it cannot be opened, or is not a plain file.
    """
    folder = Path(f"/proc/{pid}")
    try:
        return _open_plain(f"{folder}/map_files/{mapping.start:x}-{mapping.end:x}", mapping)
    except PermissionError:
        return _open_plain(f"{folder}/root{mapping.path}", mapping)


def _open_plain(path: str, mapping: Mapping) -> int:
    # Another user's process may have mapped a device that reacts to being opened.
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode) or found.st_ino != mapping.inode:
            raise FileNotFoundError(errno.ENOENT, "it has been replaced", mapping.path)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(place)
