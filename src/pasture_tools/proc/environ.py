"""The environment with which a process began: `/proc/PID/environ`.

A program that sets its title, as gunicorn does with setproctitle, overwrites its arguments and its
environment, and keeps the variables elsewhere. They are then read where its C library has them.
Standard library alone.

Source: proc_pid_environ(5), environ(7).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePath
from typing import IO

from pasture.proc.maps import Mapping, read_maps
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.proc.elf import read_elf

_PROC = Path("/proc")
_WORD_BYTES = 8
_MAX_VARIABLES = 10_000
_MAX_BYTES = 8 << 20  # the kernel starts no program with more
_LIBC = re.compile(r"^(libc[.-]|ld-musl)")
_NAMES = ("environ", "__environ", "_environ")


def read_environ(pid: int, proc: Path = _PROC) -> dict[str, str]:
    """Variables by name; empty if the process has ended or belongs to another user.

    Later variables are missing, unless the process overwrote the first ones.
    """
    try:
        data = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    if data.startswith(b"\0") or b"\0\0" in data:  # a variable has a name
        data = b"\0".join(_elsewhere(pid, proc)) or data
    found: dict[str, str] = {}
    for entry in os.fsdecode(data).split("\0"):
        name, equals, value = entry.partition("=")
        if equals:
            found.setdefault(name, value)  # getenv(3) returns the first one of a name
    return found


def _elsewhere(pid: int, proc: Path) -> list[bytes]:
    try:
        mappings = read_maps(pid, proc)
        memory = (proc / str(pid) / "mem").open("rb", buffering=0)
    except OSError:
        return []
    with closing(memory):
        for place in _places(mappings):
            if found := list(_strings(memory, _word(memory, place))):
                return found
    return []


def _places(mappings: Sequence[Mapping]) -> Iterator[int]:
    """Addresses of the variable `environ`: in the program, which may have a copy, or in libc."""
    seen: set[str] = set()
    for mapping in mappings:
        is_candidate = not seen or _LIBC.match(PurePath(mapping.path).name)
        if not mapping.is_file or mapping.path in seen or not is_candidate:
            continue
        seen.add(mapping.path)
        elf = read_elf(mapping.path)
        for value, name in zip(elf.values, elf.names, strict=True):
            if name.partition("@")[0] in _NAMES:
                yield mapping.start - elf.linked(mapping.offset) + value
                break


def _strings(memory: IO[bytes], table: int) -> Iterator[bytes]:
    left = _MAX_BYTES
    for i in range(_MAX_VARIABLES if table else 0):
        address = _word(memory, table + i * _WORD_BYTES)
        if not address or left <= 0:
            return
        text = _string(memory, address, left)
        left -= len(text)
        yield text


def _string(memory: IO[bytes], address: int, most_bytes: int) -> bytes:
    text, end = bytearray(), b""
    while not end and len(text) < most_bytes:
        at = address + len(text)
        part = _read(memory, at, OS_PAGE_BYTES - at % OS_PAGE_BYTES)
        if not part:
            break
        head, end, _ = part.partition(b"\0")
        text += head
    return bytes(text)


def _word(memory: IO[bytes], address: int) -> int:
    return int.from_bytes(_read(memory, address, _WORD_BYTES), "little")


def _read(memory: IO[bytes], address: int, size_bytes: int) -> bytes:
    try:
        return os.pread(memory.fileno(), size_bytes, address)
    except (OSError, OverflowError):  # nothing is mapped there
        return b""
