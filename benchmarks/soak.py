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

GROWTH_LIMIT_BYTES = 24_000_000
"""Of resident memory at its lowest, from the second quarter of the time to the last. Samples
are taken after full collections, but the other threads have gone on by then."""

GROWTH_LIMIT = 0.05
"""Of the memory blocks that objects use, as a share, between the same quarters."""


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
class Growth:
    """The lowest sample of the second quarter of the time, and of the last."""

    resident_bytes: tuple[int, int]
    blocks: tuple[int, int]

    @classmethod
    def of(cls, samples: list[Sample]) -> Growth:
        quarter = len(samples) // 4
        quarters = samples[quarter : 2 * quarter], samples[-quarter:]
        early, late = ([(s.resident_bytes, s.blocks) for s in part] for part in quarters)
        (early_bytes, early_blocks), (late_bytes, late_blocks) = (
            map(min, zip(*part, strict=True)) for part in (early, late)
        )
        return cls((early_bytes, late_bytes), (early_blocks, late_blocks))

    def is_too_much(self) -> bool:
        resident = self.resident_bytes[1] - self.resident_bytes[0]
        return resident > GROWTH_LIMIT_BYTES or self.blocks[1] > self.blocks[0] * (1 + GROWTH_LIMIT)

    def text(self) -> str:
        early, late = (size / 1e6 for size in self.resident_bytes)
        return (
            f"resident memory at its lowest {early:.1f} MB, then {late:.1f}; "
            f"blocks in use at their fewest {self.blocks[0]:,}, then {self.blocks[1]:,}"
        )


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
        collect_for_certain()
        samples.append(take_sample())
    return forks, samples


def collect_for_certain() -> None:
    """Return after a full collection. While one runs, `gc.collect()` does nothing, and with
    threads that allocate one nearly always does."""
    before = full_collections[0]
    while full_collections[0] == before:
        gc.collect()


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
    growth = Growth.of(samples)
    out_of_line = pasture.gc.history().collections
    print(
        f"{minutes:g} minutes: {full_collections[0]:,} full collections, {out_of_line:,} of them "
        f"out of line, {forks:,} forks, {Finalized.count:,} objects finalized; {growth.text()}"
    )
    sys.exit(growth.is_too_much() or (out_of_line == 0) != built_in)


if __name__ == "__main__":
    main()
