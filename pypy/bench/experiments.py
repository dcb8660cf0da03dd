"""One run of each measured program: started, led through its steps, its memory read.

The programs are in pypy/programs; each says there what it prints and what it waits for.
Times are CPU times that the programs take of themselves, memory is read from outside.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pasture.proc.smaps import Memory, read_memory

NURSERY = "1M"
"""The default follows the cache of the machine."""


class WentWrong(Exception):
    """A measured program did not say what it should have."""


@dataclass(frozen=True, slots=True)
class HeapRun:
    """What a forked child's collections cost, in memory and CPU time.

    Attributes:
        heap_bytes: resident in the child before it collected.
        private_bytes: made private by the first full collection.
        first_s, steady_s: CPU time of the first, and the least of the later ones.
    """

    heap_bytes: int
    private_bytes: int
    first_s: float
    steady_s: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Summed over the workers, after one burst of requests."""

    private_bytes: int
    shared_bytes: int
    pss_bytes: int


@dataclass(frozen=True, slots=True)
class RequestsRun:
    bursts: tuple[Burst, ...]
    cpu_s: float


@contextmanager
def _program(*command: str | Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYPY_GC_NURSERY": NURSERY} | settings
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _said(process: subprocess.Popen[bytes], word: str) -> int:
    words = _pipe(process.stdout).readline().split()
    if not words or words[0].decode() != word:
        raise WentWrong(f"{process.args!r} said {words!r}, not {word}")
    return int(words[1]) if len(words) > 1 else 0


def _go_on(process: subprocess.Popen[bytes]) -> None:
    _pipe(process.stdin).write(b".")
    _pipe(process.stdin).flush()


def _memory(pid: int) -> Memory:
    memory = read_memory(pid)
    if memory is None:
        raise WentWrong(f"process {pid} ended too early")
    return memory


def run_heap(program: Path, megabytes: int, collections: int, **settings: str) -> HeapRun:
    """Raises WentWrong, also where the child's checksum is not its parent's."""
    with _program(program, "heap", str(megabytes), str(collections), **settings) as process:
        _said(process, "heap")
        pid = _said(process, "child")
        before = _memory(pid)
        _go_on(process)
        first_us = _said(process, "first")
        after = _memory(pid)
        _go_on(process)
        steady_us = _said(process, "steady")
        _go_on(process)
        _said(process, "end")
        if process.wait(60) != 0:
            raise WentWrong(f"{program} ended with {process.returncode}")
    private = after.private_bytes - before.private_bytes
    return HeapRun(before.rss_bytes, private, first_us / 1e6, steady_us / 1e6)


def run_allocation(program: Path, rounds: int) -> float:
    """CPU seconds."""
    with _program(program, "allocation", str(rounds)) as process:
        cpu_us = _said(process, "cpu")
        if process.wait(60) != 0:
            raise WentWrong(f"{program} ended with {process.returncode}")
    return cpu_us / 1e6


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_requests(
    program: Path, workers: int, bursts: int, requests: int, **settings: str
) -> RequestsRun:
    """Bursts of requests to a server of forked workers; memory after each burst."""
    found = []
    with _program(program, "requests", str(workers), **settings) as process:
        pids = [_said(process, "worker") for _ in range(workers)]
        for _ in range(bursts):
            _pipe(process.stdin).write(b"." * requests)
            _pipe(process.stdin).flush()
            if len(_pipe(process.stdout).read(requests)) != requests:
                raise WentWrong(f"{program}: a worker ended")
            memories = [_memory(pid) for pid in pids]
            found.append(
                Burst(
                    sum(memory.private_bytes for memory in memories),
                    sum(memory.shared_bytes for memory in memories),
                    sum(memory.pss_bytes for memory in memories),
                )
            )
        cpu_s = sum(_cpu_s(pid) for pid in pids)
        _pipe(process.stdin).close()
        process.wait(60)
    return RequestsRun(tuple(found), cpu_s)
