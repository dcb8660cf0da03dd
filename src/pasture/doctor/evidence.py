"""What `pasture doctor` reads of a running server: once, from outside, and frozen.

Nothing is written to the server and nothing is stopped.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from pasture.doctor.modules import Module, is_stable_abi, read_module, read_text
from pasture.errors import ProcessEnded
from pasture.proc import smaps, tree
from pasture.proc.environ import read_environ
from pasture.proc.maps import parse_maps
from pasture.proc.smaps import Memory
from pasture.sealing.interpreter import current, left_out


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of a server.

    Attributes:
        master_pid: the process that forks.
        command: its arguments.
        environ: its environment when it began.
        master: its memory.
        workers: their memory.
        threads: names of the master's threads, the main one first.
        files: mapped by the master or a worker, without duplicates.
        huge_pages: content of transparent_hugepage/enabled; "" if there is no such file.
        ksm: content of ksm/run; "" if there is no such file.
        gc_callers: who called gc.enable(); None if that was not watched.
        modules: those files that are extensions for the stable ABI.
        refusals: why a seal cannot work, or parts of it, on the interpreter of the server: told
            where that is the one that asks.
    """

    master_pid: int
    command: tuple[str, ...]
    environ: dict[str, str]
    master: Memory
    workers: tuple[Memory, ...]
    threads: tuple[str, ...]
    files: tuple[str, ...]
    huge_pages: str
    ksm: str
    gc_callers: tuple[str, ...] | None = None
    modules: tuple[Module, ...] = ()
    refusals: tuple[str, ...] = ()


def gather(master_pid: int, gc_callers: tuple[str, ...] | None = None) -> Evidence:
    """Read what there is to read of a server.

    Raises:
        ProcessEnded: it has ended.
        NoPrivilege: it belongs to another user, or there is no /proc.
        UsageError: it is a thread of the kernel.
    """
    tree.require_memory_of(master_pid)
    memory = smaps.read_memory(master_pid)
    workers = tree.forked_workers(master_pid)
    if memory is None:
        raise ProcessEnded(f"process {master_pid} has ended", hint="give the pid of another")
    files = tuple(sorted({f for pid in (master_pid, *workers) for f in _files(pid)}))
    sizes = (smaps.read_memory(pid) for pid in workers)
    return Evidence(
        master_pid=master_pid,
        command=_command(master_pid),
        environ=read_environ(master_pid),
        master=memory,
        workers=tuple(size for size in sizes if size is not None),
        threads=_threads(master_pid),
        files=files,
        huge_pages=read_text("/sys/kernel/mm/transparent_hugepage/enabled"),
        ksm=read_text("/sys/kernel/mm/ksm/run"),
        gc_callers=gc_callers,
        modules=tuple(map(read_module, filter(is_stable_abi, files))),
        refusals=_refusals() if _is_own_interpreter(files) else (),
    )


def _is_own_interpreter(files: tuple[str, ...]) -> bool:
    return os.path.realpath(sys.executable) in files


def _refusals() -> tuple[str, ...]:
    unsupported = current().unsupported
    return left_out() if unsupported is None else (unsupported,)


def _command(pid: int) -> tuple[str, ...]:
    try:
        return tuple(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ()


def _threads(pid: int) -> tuple[str, ...]:
    folder = Path(f"/proc/{pid}/task")
    try:
        tasks = sorted(folder.iterdir(), key=lambda task: (int(task.name) != pid, int(task.name)))
    except OSError:
        return ()
    return tuple(read_text(str(task / "comm")).strip() for task in tasks)


def _files(pid: int) -> set[str]:
    return {
        mapping.path for mapping in parse_maps(read_text(f"/proc/{pid}/maps")) if mapping.is_file
    }
