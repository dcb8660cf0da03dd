"""Minutes of allocation, cycles, threads and forks with every full collection out of line.

    python -m benchmarks.soak [--minutes 10] [--threads 3] [--built-in]

Meant for the check build, whose verifier compares each collection with plain reachability.
Exits with 1 if a process crashes, a live object is lost or memory grows. With `--built-in`
CPython's own collector does all the work, so that its growth can be compared.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import pasture.gc

GROWTH_LIMIT = 0.05
"""Of the memory blocks in use at their fewest, as a share, from the second quarter of the time to
the last. Resident memory is reported, not judged: pymalloc's arenas fill up with survivors here and
there, and it grows under either collector."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of the process at one moment.

    Attributes:
        resident_bytes: RSS (proc_pid_statm(5)).
        blocks: that Python's allocator has handed out (`sys.getallocatedblocks`). What the
            allocator keeps to itself does not count.
    """

    resident_bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Quarters:
    """The lowest figures of each quarter of the time, in the units of `Sample`."""

    resident_bytes: tuple[int, ...]
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, samples: list[Sample]) -> Quarters:
        """Raises `ValueError` for fewer than four samples."""
        size = len(samples) // 4
        parts = [samples[i * size : (i + 1) * size] for i in range(4)]
        return cls(
            tuple(min(sample.resident_bytes for sample in part) for part in parts),
            tuple(min(sample.blocks for sample in part) for part in parts),
        )

    def grew(self) -> bool:
        return self.blocks[3] > self.blocks[1] * (1 + GROWTH_LIMIT)

    def text(self) -> str:
        resident = ", ".join(f"{size / 1e6:.1f}" for size in self.resident_bytes)
        blocks = ", ".join(f"{count:,}" for count in self.blocks)
        return f"lowest by quarter: resident MB {resident}; blocks in use {blocks}"


class Node:
    def __init__(self, number: int) -> None:
        self.number = number
        self.held: list[Any] = []


class Finalized(Node):
    count = 0

    def __del__(self) -> None:
        Finalized.count += 1


def grow(rng: random.Random, alive: list[Node]) -> None:
    """Make a tangle of objects, keep a few of them in place of older ones."""
    nodes = [rng.choice((Node, Finalized))(number) for number in range(rng.randrange(5, 200))]
    for node in nodes:
        other = rng.choice(nodes)
        shapes: tuple[Any, ...] = (
            other,
            [other, {number: other for number in range(3)}],
            (node, (other,)),
            lambda node=node, other=other: (node, other),
            weakref.ref(other, lambda ref: None),
        )
        node.held.append(rng.choice(shapes))
    for node in rng.sample(nodes, 2):
        alive[rng.randrange(len(alive))] = node


def check(alive: list[Node]) -> None:
    """Raises `AssertionError` if what is alive was cleared."""
    assert all(node.held for node in alive if node.number >= 0), "a live object was cleared"


def work(seed: int, until: float) -> None:
    rng = random.Random(seed)
    alive: list[Node] = [Node(-1) for _ in range(500)]
    while time.monotonic() < until:
        for _ in range(10):
            grow(rng, alive)
        gc.collect(rng.choice((0, 1, 2)))
        check(alive)


def live_as_child(seed: int) -> None:
    """A child that allocates, collects frozen objects too, and forks once itself."""
    work(seed, time.monotonic() + 0.2)
    if pasture.gc.is_installed():
        pasture.gc.collect(frozen=True)
    pid = os.fork()
    if pid == 0:
        work(seed + 1, time.monotonic() + 0.1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os._exit(1 if status else 0)


def take_sample() -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(pages * os.sysconf("SC_PAGE_SIZE"), sys.getallocatedblocks())


def watch(until: float) -> tuple[int, list[Sample]]:
    """Fork children and take samples of memory. Returns the number of forks and the samples."""
    forks, samples = 0, []
    while time.monotonic() < until:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            live_as_child(forks)
        _, status = os.waitpid(pid, 0)
        if status:
            raise click.ClickException(f"a child ended with status {status:#x}")
        forks += 1
        gc.collect()
        samples.append(take_sample())
    return forks, samples


def count_full_collections(phase: str, info: dict[str, int]) -> None:
    full_collections[0] += phase == "stop" and info["generation"] == 2


full_collections = [0]


@click.command(help=__doc__)
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--threads", default=3, show_default=True)
@click.option("--built-in", is_flag=True, help="Leave all collections to CPython.")
def main(minutes: float, threads: int, built_in: bool) -> None:
    gc.callbacks.append(count_full_collections)
    if not built_in:
        pasture.gc.install()
    gc.set_threshold(500, 3, 3)
    until = time.monotonic() + 60 * minutes
    failures: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            work(seed, until)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=guarded, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    forks, samples = watch(until)
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    if len(samples) < 4:
        raise click.ClickException("too few samples to see growth: run it for more --minutes")
    quarters = Quarters.of(samples)
    out_of_line = pasture.gc.history().collections
    print(
        f"{minutes:g} minutes: {full_collections[0]:,} full collections, {out_of_line:,} of them "
        f"out of line, {forks:,} forks, {Finalized.count:,} objects finalized; {quarters.text()}"
    )
    sys.exit(quarters.grew() or (out_of_line == 0) != built_in)


if __name__ == "__main__":
    main()
