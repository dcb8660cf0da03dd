"""The processes of a server: its forked workers, and all processes below it.

A process may have ended by the time the caller looks at it. Does not use psutil, which would be
sealed into servers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pasture.errors import NoPrivilege, ProcessEnded, UsageError
from pasture.proc import privilege, smaps
from pasture.proc.maps import read_maps
from pasture.proc.stat import PROBE_NAME, Stat, read_stat
from pasture.trust.untrusted_text import printable

_PROC = Path("/proc")
_MAX_COMMAND_CHARACTERS = 200
_SPAWNED = (".spawn import spawn_main", ".popen_loky_posix")
"""Parts of commands of multiprocessing, and of libraries that descend from it."""
_ASGI = ("daphne", "asgi")
_ASGI_LIBRARIES = ("/uvloop/", "/httptools/", "/granian/")
_OTHERS = ("mod_wsgi",)
_TEST_RUNS = frozenset(("pytest", "py.test", "unittest"))
_XDIST = ("import sys;exec(eval(sys.stdin.readline()))", "[pytest-xdist")
T = TypeVar("T")


def forked_workers(master_pid: int) -> tuple[int, ...]:
    """Pids of the children that a master forked and that run no other program, ascending."""
    return tuple(pid for pid in children(master_pid) if _is_forked(pid, master_pid))


def spawned_workers(master_pid: int) -> tuple[int, ...]:
    """Pids, ascending, of the children that a library started as new interpreters."""
    return tuple(filter(_is_spawned, children(master_pid)))


def workers_of(master_pid: int) -> tuple[int, ...]:
    """Pids of the workers of a master, forked or started as new interpreters, ascending."""
    return forked_workers(master_pid) or spawned_workers(master_pid)


def master_of(pid: int, *, forked_only: bool = True) -> int | None:
    """The process itself if it has workers, its parent if it is a worker, else None.

    Args:
        forked_only: workers that are new interpreters do not count.
    """
    workers = forked_workers if forked_only else workers_of
    if workers(pid):
        return pid
    stat = read_stat(pid)
    return stat.parent_pid if stat is not None and pid in workers(stat.parent_pid) else None


def serves_asgi(pid: int, names: Iterable[str]) -> bool:
    """Whether a process's command names a server for ASGI, of these or known here, or its worker.

    Another command, as `prefect server start`, is recognized by libraries that such servers load.
    """
    if _is_named(pid, (*names, *_ASGI)):
        return True
    with suppress(OSError):
        files = [mapping.path for mapping in read_maps(pid, _PROC)]
        return any(name in file for file in files for name in _ASGI_LIBRARIES)
    return False


def serves_requests(pid: int, names: Iterable[str]) -> bool:
    """Whether a process's command names a server of web requests, of these or known here."""
    return _is_named(pid, (*names, *_OTHERS))


def _is_named(pid: int, names: Iterable[str]) -> bool:
    words = "\n".join(command_of(pid)).lower()
    return any(name in words for name in names)


def command_of(pid: int) -> tuple[str, ...]:
    """The arguments of a process; empty if it has ended."""
    try:
        text = os.fsdecode((_PROC / str(pid) / "cmdline").read_bytes()).rstrip("\0")
    except OSError:
        return ()
    # A title that a program has given itself is one string.
    return tuple(text.split("\0" if "\0" in text else " ")) if text else ()


def children(pid: int, proc: Path = _PROC, *, recursive: bool = False) -> tuple[int, ...]:
    """Pids of a process's children (and theirs, if `recursive`), ascending, with zombies."""
    stats = dict(_stats(proc))
    found: set[int] = set()
    parents = {pid} & stats.keys()
    while parents:
        parents = {
            child
            for child, stat in stats.items()
            if stat.parent_pid in parents
            # Else the pid of an ended child was reused while the rest was read.
            and stat.start_time >= stats[stat.parent_pid].start_time
        } - found
        found |= parents
        if not recursive:
            break
    return tuple(sorted(found))


def _stats(proc: Path) -> Iterator[tuple[int, Stat]]:
    for name in filter(str.isdecimal, os.listdir(proc)):  # noqa: PTH208
        stat = read_stat(int(name), proc)
        if stat is not None:
            yield int(name), stat


def descendants(pid: int) -> tuple[int, ...]:
    """Pids of all processes below a process, ascending, without zombies."""
    return tuple(filter(is_running, children(pid, recursive=True)))


def processor_s(pid: int) -> float:
    """User and system time of a process and all below it, ended ones included, in seconds.

    Ended ones count if a living process has reaped them, as masters reap workers.
    """
    stats = map(read_stat, (pid, *children(pid, recursive=True)))
    return sum(stat.processor_s for stat in stats if stat is not None)


def require_memory_of(pid: int, proc: Path = _PROC) -> None:
    """Check that a process exists and has memory of its own.

    Raises:
        NoPrivilege: `/proc` is missing or hides the process.
        ProcessEnded: the process does not exist, or is a zombie.
        UsageError: it is a thread of the kernel.
    """
    smaps.require_smaps_rollup(proc)
    stat = read_stat(pid, proc)
    if stat is None:
        raise _hidden_or_gone(pid)
    if stat.has_ended:
        raise ProcessEnded(
            f"process {pid} has ended and only waits for its parent (a zombie)",
            hint="give the pid of another process",
        )
    if stat.is_kernel_thread:
        raise UsageError(
            f"process {pid} is a thread of the kernel", hint="give the pid of a server's master"
        )


def _hidden_or_gone(pid: int) -> NoPrivilege | ProcessEnded:
    try:
        os.kill(pid, 0)  # signal 0 only checks
    except (ProcessLookupError, OverflowError):
        return ProcessEnded(f"there is no process {pid}", hint="give the pid of another process")
    except OSError:
        pass
    return NoPrivilege(
        f"/proc hides process {pid} from this user",
        hint=privilege.hint(
            "CAP_SYS_PTRACE", "run pasture as its user or as root; /proc is mounted with hidepid"
        ),
    )


def is_running(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process exists and is not a zombie."""
    stat = read_stat(pid, proc)
    return stat is not None and not stat.has_ended


def _is_forked(pid: int, parent: int) -> bool:
    """Whether a process was forked: a fork inherits its addresses, an exec gets random ones."""
    stat, of_parent = read_stat(pid), read_stat(parent)
    return (
        stat is not None
        and of_parent is not None
        and (stat.start_code, stat.start_stack) == (of_parent.start_code, of_parent.start_stack)
        and stat.name != PROBE_NAME
    )


def _is_spawned(pid: int) -> bool:
    return any(part in word for word in command_of(pid) for part in _SPAWNED)


def pythons() -> Iterator[tuple[int, Stat]]:
    """This user's (root: all) processes that run Python, by their names."""
    return ((pid, stat) for pid, stat in _stats(_PROC) if _is_python(pid))


def find_masters() -> tuple[int, ...]:
    """Pids of this user's (root: of all) Python processes that have workers and are not workers.

    Test runs do not count.
    """
    parents = {pid: stat.parent_pid for pid, stat in pythons()}
    workers = {
        pid: parent
        for pid, parent in parents.items()
        if parent in parents and (_is_forked(pid, parent) or _is_spawned(pid))
    }
    masters = set(workers.values()) - set(workers) - {os.getpid()}
    return tuple(sorted(master for master in masters if not _runs_tests(master)))


def _runs_tests(pid: int) -> bool:
    """Whether a process runs tests, by its command: tests fork as servers do."""
    words = [word.rpartition("/")[2] for word in command_of(pid)[:4]]
    return not _TEST_RUNS.isdisjoint(words) or any(word.startswith(_XDIST) for word in words)


def only_master(command: str) -> int:
    """The master to look at if a user names none.

    Args:
        command: the user's command, for the hint.

    Raises:
        UsageError: none or several were found. NoPrivilege: `/proc` is missing.
    """
    smaps.require_smaps_rollup()
    masters = find_masters()
    if not masters:
        raise UsageError(
            "no pre-fork server was found", hint=f"pasture {command} PID, of a worker or its master"
        )
    return _only(masters, command)


def server_of(pid: int, command: str) -> int:
    """The process that a user names, or the only master below a shell or a supervisor.

    Raises:
        UsageError: several are below it.
    """
    if master_of(pid, forked_only=False) is not None:
        return pid
    below = set(children(pid, recursive=True))
    masters = tuple(master for master in find_masters() if master in below)
    return _only(masters, command) if masters else pid


def _only(masters: tuple[int, ...], command: str) -> int:
    if len(masters) == 1:
        return masters[0]
    raise UsageError(
        f"{len(masters)} pre-fork servers were found",
        hint="\n".join((f"pasture {command} PID, of one of these:", *map(_described, masters))),
    )


def _described(master: int) -> str:
    workers = workers_of(master)
    pss = smaps.total_pss_bytes((master, *workers))
    memory = "" if pss is None else f", PSS {pss / 1e6:,.0f} MB"
    command = printable(" ".join(command_of(master)), _MAX_COMMAND_CHARACTERS)
    return f"{master:>8}  {len(workers)} workers{memory}  {command}"


def _is_python(pid: int) -> bool:
    """Whether a process runs Python, by the name of its thread or of its program."""
    folder = _PROC / str(pid)
    try:
        return b"python" in (folder / "comm").read_bytes() or "python" in str(
            (folder / "exe").readlink()
        )
    except OSError:
        return False


def read_again(
    read: Callable[[], T | None], tries: int, between: Callable[[], object] = lambda: None
) -> T | None:
    """A reading during which no process ended; None after the given number of tries.

    Args:
        read: returns None, or raises ProcessEnded, if a process ended meanwhile.
        between: called between two tries, for a pause.

    Raises:
        ProcessEnded: the last reading did.
    """
    for left in reversed(range(tries)):
        try:
            found = read()
        except ProcessEnded:
            if not left:
                raise
        else:
            if found is not None:
                return found
        if left:
            between()
    return None
