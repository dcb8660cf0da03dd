"""The memory of a process, from `/proc/PID/smaps_rollup`, and of each of its files, from `smaps`.

Invariant of a `Memory` that the kernel wrote in one go:
    rss_bytes = private_bytes + shared_bytes + hugetlb pages that are counted apart
    pss_bytes <= rss_bytes

Source: proc_pid_smaps(5); Documentation/filesystems/proc.rst of Linux.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import NoPrivilege
from pasture.proc import privilege
from pasture.proc.maps import parse_smaps

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one process at one moment."""

    rss_bytes: int  # resident set size, shared pages counted in full
    # Proportional set size: a page mapped by n processes counts 1/n. The sum over a tree of
    # processes is the memory that the tree takes.
    pss_bytes: int
    private_clean_bytes: int  # pages that only this process maps, equal to their file
    private_dirty_bytes: int  # pages that only this process maps and that were written
    shared_bytes: int  # pages that at least one other process maps too
    swap_pss_bytes: int = 0  # proportional part of swapped memory; in none of the above
    anonymous_bytes: int = 0  # pages without a file, shared or swapped ones included

    @property
    def private_bytes(self) -> int:
        """Pages that would be free if this process ended (the unique set size)."""
        return self.private_clean_bytes + self.private_dirty_bytes


@dataclass(frozen=True, slots=True)
class InMemory:
    """The part of a file that one process has in memory."""

    bytes: int = 0  # shared or private
    private_bytes: int = 0  # only in this process

    def __add__(self, other: InMemory) -> InMemory:
        return InMemory(self.bytes + other.bytes, self.private_bytes + other.private_bytes)


def parse_rollup(text: str) -> Memory:
    """Parse the whole text of a `smaps_rollup` file; ValueError if a field is missing."""
    _, fields = next(parse_smaps(text), (None, {}))
    try:
        return Memory(
            rss_bytes=fields["Rss"],
            pss_bytes=fields["Pss"],
            private_clean_bytes=fields["Private_Clean"],
            private_dirty_bytes=fields["Private_Dirty"] + fields.get("Private_Hugetlb", 0),
            shared_bytes=fields["Shared_Clean"]
            + fields["Shared_Dirty"]
            + fields.get("Shared_Hugetlb", 0),
            swap_pss_bytes=fields.get("SwapPss", 0),
            anonymous_bytes=fields.get("Anonymous", 0) + fields.get("Swap", 0),
        )
    except KeyError as missing:
        raise ValueError(f"smaps_rollup has no field {missing}") from None


def parse_mapped_files(text: str) -> dict[str, InMemory]:
    """The memory of each file in a text of `smaps`, by the file's name."""
    found: dict[str, InMemory] = {}
    for mapping, figures in parse_smaps(text):
        if mapping.is_file:
            private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
            size = InMemory(figures.get("Rss", 0), private)
            found[mapping.path] = found.get(mapping.path, InMemory()) + size
    return found


def read_memory(pid: int, proc: Path = _PROC) -> Memory | None:
    """Read the memory of a process; None if it has ended or is ending.

    Raises:
        NoPrivilege: the process belongs to another user, or `/proc` hides it.
    """
    try:
        text = (proc / str(pid) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        raise _no_privilege(pid) from None
    return parse_rollup(text) if text else None


def own_private_bytes(proc: Path = _PROC) -> int:
    """Private memory of this process; as `read_own`."""
    return read_own(proc).private_bytes


def read_own(proc: Path = _PROC) -> Memory:
    """The memory of this process. Takes milliseconds: a walk over its pages.

    Raises:
        OSError: `/proc` is missing, or the kernel is too old.
    """
    path = proc / "self" / "smaps_rollup"
    try:
        return parse_rollup(path.read_text())
    except ValueError as error:
        raise OSError(f"{path}: {error}") from None


def total_pss_bytes(pids: Iterable[int], proc: Path = _PROC) -> int | None:
    """Sum of the PSS of processes; None if one has ended or cannot be read."""
    total = 0
    for pid in pids:
        try:
            memory = read_memory(pid, proc)
        except (NoPrivilege, OSError, ValueError):
            return None
        if memory is None:
            return None
        total += memory.pss_bytes
    return total


def has_memory(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process still has its address space; cheaper than `read_memory`.

    False from the moment the process starts to end. Source: proc_pid_statm(5).
    """
    try:
        return not (proc / str(pid) / "statm").read_text().startswith("0 ")
    except OSError:
        return False


def require_smaps_rollup(proc: Path = _PROC) -> None:
    """Check that the kernel reports memory, before anything is started.

    Raises:
        NoPrivilege: `/proc` is missing, or the kernel is older than 4.14.
    """
    path = proc / "self" / "smaps_rollup"
    try:
        parse_rollup(path.read_text())
    except (FileNotFoundError, ProcessLookupError, PermissionError, ValueError) as error:
        raise NoPrivilege(
            f"cannot read memory figures from {path}: {error}",
            hint="pasture needs Linux 4.14 or newer with /proc mounted",
        ) from None


def _no_privilege(pid: int) -> NoPrivilege:
    return NoPrivilege(
        f"not allowed to read the memory figures of process {pid}",
        hint=privilege.hint(
            "CAP_SYS_PTRACE",
            "run pasture as the user that owns the process, or as root; "
            "a server that changes its user after the start needs root",
        ),
    )
