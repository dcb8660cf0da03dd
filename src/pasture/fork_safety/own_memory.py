"""Nameless shared memory that an import has made: each child gets its own copy.

A plain server imports the application in each worker: a semaphore, `Value` or `Array` of
`multiprocessing`, an anonymous mapping are one worker's and its children's. So a child copies the
content at its fork into a memory file, maps that at the same addresses, and replaces each
descriptor of the old memory.

Owns the choice of the memory, and the copy. Invariant: what was mapped before the import, or has a
name, is not touched, nor is the parent's. A child that gets no memory of its own ends.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety import own_files
from pasture.fork_safety.library import instances
from pasture.fork_safety.open_files import is_locked, name_of, open_files
from pasture.interpreter import native
from pasture.proc.maps import Mapping, parse_maps

_ANONYMOUS = "/dev/zero (deleted)"
_FOLDER = Path("/dev/shm")
_MAX_BYTES = 64 << 20
"""Limit of the memory that each child copies at its fork."""
_STATUS = 71
"""EX_OSERR of sysexits.h."""

Memory = tuple[str, int]
"""Name and inode of mapped memory, as the kernel lists it."""

_chosen: frozenset[Memory] = frozenset()
_noted: frozenset[Memory] = frozenset()


def choose(found: Collection[Memory]) -> frozenset[Memory]:
    """The memory that each child gets a copy of. In the parent, right after the import."""
    global _chosen
    _chosen = frozenset()
    if found and _can_copy() and not _holds_semaphore():
        _chosen = frozenset(_copied(found))
    return _chosen


def note() -> None:
    """Have each child copy the chosen memory. In the parent, before the forks."""
    global _noted
    _noted = _chosen


def take() -> None:
    """Copy the noted memory. In each child, right after the fork; not in its own children."""
    global _noted, _chosen
    noted, _noted = _noted, frozenset()
    if not noted:
        return
    try:
        _chosen = frozenset(map(_own, _parts_of(noted)))
    except Exception as error:  # it must not write into the memory of another one
        with suppress(OSError):
            os.write(2, f"pasture: shared memory could not be copied: {error!r}\n".encode())
        os._exit(_STATUS)


def _parts_of(memory: Collection[Memory]) -> list[list[Mapping]]:
    found = parse_maps(os.fsdecode(Path("/proc/self/maps").read_bytes()))
    theirs = sorted((one for one in found if _key(one) in memory), key=_key)
    return [list(group) for _, group in groupby(theirs, _key)]


def _key(one: Mapping) -> Memory:
    return one.path, one.inode


# What a child can copy


def _can_copy() -> bool:
    try:
        native()
        os.close(os.memfd_create("trial"))
    except (OSError, UnsupportedInterpreter):
        return False
    return True


def _holds_semaphore() -> bool:
    """Whether this process holds a semaphore: a copy in each worker would be held for ever."""
    kind = getattr(sys.modules.get("multiprocessing.synchronize"), "SemLock", None)
    return kind is not None and any(one._semlock._count() for one in instances([kind]))


def _copied(found: Collection[Memory]) -> Iterator[Memory]:
    left = _MAX_BYTES
    for parts in _parts_of(found):
        left -= sum(one.length for one in parts)
        if left >= 0 and all(map(_is_readable, parts)) and _is_one_process_s(parts):
            yield _key(parts[0])


def _is_readable(one: Mapping) -> bool:
    """Whether a mapping can be read to its end: it may be longer than its file."""
    if one.permissions not in ("rw-s", "r--s"):
        return False
    with suppress(OSError), Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(one.end - 1)
        return bool(memory.read(1))
    return False


def _is_one_process_s(parts: list[Mapping]) -> bool:
    """Whether the memory has no name for other processes, and is mapped completely."""
    files = _files_of(parts)
    if files:
        return all(_is_nameless(*one, parts) for one in files)
    return parts[0].path == _ANONYMOUS or _is_unlinked_semaphore(parts[0])


def _files_of(parts: list[Mapping]) -> list[tuple[int, os.stat_result]]:
    inode, path = parts[0].inode, parts[0].path
    return [
        (number, what)
        for number, what in open_files()
        if what.st_ino == inode and name_of(number) == path
    ]


def _is_nameless(number: int, what: os.stat_result, parts: list[Mapping]) -> bool:
    is_plain = stat.S_ISREG(what.st_mode) and not what.st_nlink and not is_locked(number)
    if not is_plain or fcntl.fcntl(number, fcntl.F_GETFL) & os.O_PATH:
        return False
    with suppress(OSError):  # other file systems know no seals
        if fcntl.fcntl(number, fcntl.F_GET_SEALS) & ~fcntl.F_SEAL_SEAL:
            return False
    end = 0
    for one in sorted(parts, key=lambda one: one.offset):
        end = max(end, one.offset + one.length) if one.offset <= end else end
    return what.st_size <= end


def _is_unlinked_semaphore(one: Mapping) -> bool:
    """Whether a mapping is an unlinked semaphore: its file is closed, its first name is gone.

    Source: glibc sysdeps/pthread/sem_open.c.
    """
    if not one.path.startswith(f"{_FOLDER}/sem.") or not one.path.endswith(" (deleted)"):
        return False
    with suppress(OSError), os.scandir(_FOLDER) as entries:
        return one.inode not in {entry.inode() for entry in entries}
    return False


# The copy


def _own(parts: list[Mapping]) -> Memory:
    extension, files = native(), _files_of(parts)
    own = os.memfd_create("own")
    try:
        for one in parts:
            extension.write_mapping(one.start, one.length, own, one.offset)
        ends = [what.st_size for _, what in files] or [one.offset + one.length for one in parts]
        os.ftruncate(own, max(ends))
        for one in parts:
            is_writable = one.permissions[1] == "w"
            extension.replace_mapping(one.start, one.length, own, one.offset, is_writable)
        for number, _ in files:
            own_files.replace(number, f"/proc/self/fd/{own}")
        return name_of(own), os.fstat(own).st_ino
    finally:
        os.close(own)
