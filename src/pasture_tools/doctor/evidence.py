"""Facts of a running server for `pasture doctor`: read once, from outside, and frozen.

Writes nothing to the server and stops nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pasture.errors import ProcessEnded, UsageError
from pasture.interpreter import current
from pasture.proc import smaps, tree
from pasture.proc.cgroup import Usage, read_usage
from pasture.proc.maps import parse_maps
from pasture.proc.packages import package_of, read_text
from pasture.proc.smaps import InMemory, Memory, parse_mapped_files
from pasture.scoreboard.layout import Entry, Snapshot
from pasture.scoreboard.reader import read_scoreboard, served_by, workers_among
from pasture.sealing.seen import SealSeen, read_seal
from pasture.sealing.steps import left_out_besides
from pasture.servers import engines
from pasture_tools.doctor.modules import Module, is_stable_abi, read_module
from pasture_tools.doctor.notes import Notes
from pasture_tools.doctor.server import LOADING, State, parent_of_workers, state_of
from pasture_tools.doctor.threads import Thread, read_threads
from pasture_tools.doctor.waits import Process, hung_among
from pasture_tools.proc.environ import read_environ

_PROC = Path("/proc")
_TIMEOUT_S = 20.0
_LEAVES = "leaves"
_EXIT_PROGRAM = f"""\
from pasture.interpreter import native

def at_end(can_leave):
    print("{_LEAVES}" if can_leave else "finalizes", flush=True)
    return 0, 0.0

native().check_layout()
native().arm_exit(at_end)
"""


@dataclass(frozen=True, slots=True)
class Worker:
    memory: Memory  # private and shared
    requests: int | None = None  # answered so far; None where the server does not say
    at_start_bytes: int = 0  # private memory right after the fork; 0 if it is not known
    pid: int = 0
    entry: Entry | None = None  # on the scoreboard
    # Memory in files of each package, by name.
    packages: Mapping[str, InMemory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts of a server. Its master is the process that forks what serves, such as a mold."""

    master_pid: int  # the process that users know as the server
    command: tuple[str, ...]  # its arguments
    environ: dict[str, str]  # its environment when it began
    master: Memory  # its memory
    workers: tuple[Worker, ...]  # forked from the master
    threads: tuple[Thread, ...]  # the master's, without the main one
    files: tuple[str, ...]  # mapped by the master or a worker, without duplicates
    huge_pages: str  # content of transparent_hugepage/enabled; "" if there is no such file
    packages: frozenset[str] = frozenset()  # packages of files that the master has mapped
    seal: SealSeen | None = None  # pasture's work in the master; None for a server without pasture
    notes: Notes | None = None  # notes of a command that doctor started
    # Modules that every worker imported after the fork, by the notes.
    imported: tuple[str, ...] = ()
    modules: tuple[Module, ...] = ()  # files that are extensions for the stable ABI
    # Why a seal cannot work, or parts of it, on the server's interpreter; known only if doctor runs
    # on the same one.
    refusals: tuple[str, ...] = ()
    spawned: int = 0  # number of its children that are a new Python, as uvicorn's workers are
    # Whether a seal came after the application was loaded, as with pasture's engines.
    preloads: bool = False
    is_asgi: bool = False  # whether it serves ASGI, by its scoreboard or its command
    usage: Usage | None = None  # usage of its control group with the least room
    hung: tuple[Process, ...] = ()  # workers that wait for a lock, and cannot go on
    state: State = LOADING


def gather(master_pid: int, notes: Notes | None = None) -> Evidence:
    """Read the facts of a server.

    Args:
        notes: written by a server that doctor started.

    Raises:
        ProcessEnded: it has ended.
        NoPrivilege: it belongs to another user, or there is no /proc.
        UsageError: it is a thread of the kernel, or does not run Python.
    """
    tree.require_memory_of(master_pid)
    board = read_scoreboard(master_pid)
    entries = board.entries if board is not None else {}
    parent = parent_of_workers(master_pid, entries)
    memory = smaps.read_memory(parent)
    pids = tree.forked_workers(master_pid)
    if memory is None:
        raise ProcessEnded(f"process {parent} has ended", hint="give the pid of another process")
    mapped = (parse_maps(read_text(f"/proc/{pid}/maps")) for pid in (master_pid, *pids))
    files = tuple(sorted({one.path for mappings in mapped for one in mappings if one.is_file}))
    workers = workers_among(pids, entries)
    environ = read_environ(master_pid)
    mappings = parse_maps(read_text(f"/proc/{parent}/maps"))
    if not any("python" in file for file in files):
        raise UsageError(
            f"process {master_pid} does not run Python",
            hint="give the pid of the server's master, not that of a shell or a wrapper around it",
        )
    serves = served_by(master_pid, board, engines.ASGI, engines.WEB)
    refusals: tuple[str, ...] = ()
    if os.path.realpath(sys.executable) in files:
        if (unsupported := current().unsupported) is not None:
            refusals = (unsupported,)
        else:
            refusals = left_out_besides() or tuple(filter(None, (try_exit(),)))
    return Evidence(
        master_pid=master_pid,
        command=tree.command_of(master_pid),
        environ=environ,
        master=memory,
        workers=tuple(w for pid in workers if (w := _worker(pid, board)) is not None),
        threads=read_threads(parent, workers, mappings, notes or Notes(), _PROC),
        files=files,
        huge_pages=read_text("/sys/kernel/mm/transparent_hugepage/enabled"),
        packages=frozenset(_by_package(parent)),
        seal=read_seal(parent, board),
        state=state_of(master_pid, board),
        notes=notes,
        imported=notes.imported_by(workers) if notes is not None else (),
        modules=tuple(map(read_module, filter(is_stable_abi, files))),
        refusals=refusals,
        spawned=len(tree.spawned_workers(master_pid)),
        preloads=board is not None and board.seal is not None and bool(board.seal.serves),
        usage=read_usage(master_pid),
        is_asgi=serves == "asgi",
        hung=() if notes is not None else hung_among(workers, entries, serves=bool(serves)),
    )


def _worker(pid: int, board: Snapshot | None) -> Worker | None:
    memory = smaps.read_memory(pid)
    entry = board.entries.get(pid) if board is not None else None
    if memory is None:
        return None
    counted = (None, 0) if entry is None else (entry.requests, entry.private_at_start_bytes)
    return Worker(memory, *counted, pid, entry, _by_package(pid))


def _by_package(pid: int) -> dict[str, InMemory]:
    found: dict[str, InMemory] = {}
    for file, size in parse_mapped_files(read_text(f"/proc/{pid}/smaps")).items():
        if ".so" in file and ("site-packages" in file or "dist-packages" in file):
            name = package_of(file)
            found[name] = found.get(name, InMemory()) + size
    return found


def try_exit(program: str = _EXIT_PROGRAM) -> str | None:
    """Why children of this interpreter cannot end without finalization; None if they can.

    The exit skips a function of the interpreter, which is looked up on the C stack at the very end.
    A running server does not show whether the look-up works, so a process of its own tries it. Also
    None if the trial failed.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.stdout.split()[-1:] == [_LEAVES]:
        return None
    return (
        "no exit without finalization: the function that finalizes was not found on the stack of "
        "this build of CPython, so children are finalized at their end, and copy several MB then"
    )
