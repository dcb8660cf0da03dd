"""The stacks of a process's threads, which show a thread's package.

Owns the rule: the outermost code on a stack, except the C library's and the interpreter's, belongs
to the library that started the thread.

Source: proc_pid_syscall(5), proc_pid_mem(5), proc_pid_pagemap(5).
"""

from __future__ import annotations

import os
import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.packages import distribution_of, package_of, read_text

_LIBC = re.compile(r"^(libc[.-]|libpthread|libc\.musl|ld-musl)")
_SYSTEM = re.compile(
    r"^(ld[-.]|libc[.-]|libpthread|libstdc\+\+|libgcc|libm[.-]"
    r"|libjemalloc|libtcmalloc|libmimalloc)"
)
_PYTHON = re.compile(r"^(libpython3|python(3[\d.]*t?)?$)")
_MAX_STACK_BYTES = 1 << 18
_MAX_THREAD_BYTES = 1 << 14
_MAX_STACKS_BYTES = 1 << 30
_MAX_RECORD_BYTES = 2560
"""Limit of the C library's record of a thread, with thread-local variables."""
_WORD = struct.Struct("<Q")


def files_on_stack(
    pid: int, number: int, mappings: Sequence[Mapping], proc: Path = Path("/proc")
) -> tuple[str, ...]:
    """Files of the code on a thread's stack, the outermost first; fewer for a running thread."""
    address = _stack_pointer(pid, number, proc)
    if address:
        return tuple(_code_on(_stack_bytes(pid, address, mappings, proc), mappings))
    began, stack = _outer_end(pid, number, mappings, proc)  # it runs, or that is unknown
    frames = own_code(tuple(_code_on(stack, mappings)))
    return (*began, *frames)


def began_with(
    pid: int, number: int, mappings: Sequence[Mapping], proc: Path = Path("/proc")
) -> tuple[str, ...]:
    """The file of the function that a thread began with; none for the system's."""
    return _outer_end(pid, number, mappings, proc)[0]


def _stack_pointer(pid: int, number: int, proc: Path) -> int:
    """Stack pointer of a thread; 0 if it runs or the kernel does not report it."""
    words = read_text(str(proc / str(pid) / "task" / str(number) / "syscall")).split()
    return int(words[-2], 16) if len(words) >= 3 and words[-2].startswith("0x") else 0


def _outer_end(
    pid: int, number: int, mappings: Sequence[Mapping], proc: Path
) -> tuple[tuple[str, ...], bytes]:
    """Files of the code that the C library's record of a thread points to, and the stack around it.

    The record lies at the outer end of the stack: a pointer to itself, and behind it the thread's
    number and the function that the thread began with (glibc 2.17 to 2.42 nptl/descr.h on x86-64,
    musl pthread_impl.h). On other processors glibc's record lacks the pointer, and the result is
    empty.
    """
    address = _stack_pointer(pid, number, proc)
    for mapping in mappings:
        if mapping.path or not mapping.permissions.startswith("rw-"):
            continue
        if address and not mapping.start <= address < mapping.end:
            continue
        for end in _ends_in_memory(pid, mapping, proc):
            begin = max(mapping.start, end - _MAX_THREAD_BYTES)
            record = _record_of_thread(_read(pid, "mem", begin, end, proc), begin, number)
            if record:
                code = dict.fromkeys(_code_on(record, mappings))
                began = (file for file in code if not _SYSTEM.match(PurePath(file).name))
                stack = max(mapping.start, end - _MAX_STACK_BYTES)
                return tuple(began), _read(pid, "mem", stack, end, proc)
    return (), b""


def _ends_in_memory(pid: int, mapping: Mapping, proc: Path) -> Iterator[int]:
    """The ends of a mapping and of its parts in memory, from the outer end inward.

    Stacks of several threads are one mapping where the pages that guard them are marks in page
    tables (glibc 2.42, MADV_GUARD_INSTALL).
    """
    yield mapping.end
    if mapping.end - mapping.start > _MAX_STACKS_BYTES:
        return
    first, end = (address // OS_PAGE_BYTES * 8 for address in (mapping.start, mapping.end))
    entries = array("Q", _read(pid, "pagemap", first, end, proc))
    for i in range(len(entries) - 2, -1, -1):
        if _is_in_memory(entries[i]) and not _is_in_memory(entries[i + 1]):
            yield mapping.start + (i + 1) * OS_PAGE_BYTES


def _is_in_memory(entry: int) -> bool:
    """Whether an OS page is in memory or swapped out; false for a guard page."""
    return bool(entry >> 63 or (entry >> 62 & 1 and not entry >> 58 & 1))


def _record_of_thread(content: bytes, begin: int, number: int) -> bytes:
    """The C library's record of a thread, if it is in memory that begins at an address."""
    wanted = struct.pack("<i", number)
    for at in range(0, len(content) - 7, 8):
        if _WORD.unpack_from(content, at)[0] == begin + at:
            record = content[at : at + _MAX_RECORD_BYTES]
            if any(record[i : i + 4] == wanted for i in range(0, len(record) - 3, 4)):
                return b"".join(map(_not_a_size, struct.iter_unpack("<Q", record)))
    return b""


def _not_a_size(word: tuple[int]) -> bytes:
    """The bytes of a word; zeros for a multiple of the OS page, such as the size of a stack.

    Such sizes look like addresses of an interpreter at the lowest addresses.
    """
    return bytes(_WORD.size) if word[0] % OS_PAGE_BYTES == 0 else _WORD.pack(word[0])


def owner_of(files: Sequence[str]) -> tuple[str, bool]:
    """The package of the outermost code on a stack, or "", and whether it runs Python code."""
    inside = own_code(files)
    is_python = not inside or _is_python(inside[0])
    own = (f for f in inside if not _is_python(f) and "/lib-dynload/" not in f)
    if is_python:  # the C libraries of standard modules start no threads
        own = (f for f in own if distribution_of(f) is not None)
    return next(map(package_of, own), ""), is_python


def own_code(files: Sequence[str]) -> list[str]:
    """The files that are not the system's, outermost first.

    The C library starts a thread; words farther out are the thread's variables.
    """
    first = next((i for i, file in enumerate(files) if _LIBC.match(PurePath(file).name)), 0)
    return [file for file in files[first:] if not _SYSTEM.match(PurePath(file).name)]


def are_interpreters(files: Sequence[str]) -> bool:
    """Whether all of these files are the interpreter's."""
    return all(map(_is_python, files))


def _is_python(file: str) -> bool:
    return bool(_PYTHON.match(PurePath(file).name))


def _stack_bytes(pid: int, stack: int, mappings: Sequence[Mapping], proc: Path) -> bytes:
    """The outer end of the stack that holds an address."""
    holder = next((m for m in mappings if m.start <= stack < m.end), None)
    ends = _ends_in_memory(pid, holder, proc) if holder is not None else ()
    end = min((end for end in ends if end > stack), default=stack)
    return _read(pid, "mem", max(stack, end - _MAX_STACK_BYTES) & -_WORD.size, end, proc)


def _read(pid: int, name: str, begin: int, end: int, proc: Path) -> bytes:
    """A part of a file of a process; empty where it cannot be read."""
    try:
        file = os.open(proc / str(pid) / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(file, end - begin, begin)
    except OSError:
        return b""
    finally:
        os.close(file)


def _code_on(stack: bytes, mappings: Sequence[Mapping]) -> Iterable[str]:
    """Files of the code that the words of a stack point to, the outermost first."""
    code = [m for m in mappings if m.is_file and "x" in m.permissions]
    low, high = min((m.start for m in code), default=0), max((m.end for m in code), default=0)
    for at in range(len(stack) // 8 * 8 - 8, -1, -8):
        [word] = _WORD.unpack_from(stack, at)
        if low <= word < high:
            yield from (m.path for m in code if m.start <= word < m.end)
