"""Minutes of allocation, cycles, threads and forks with every full collection out of line.

    python -m benchmarks.soak [--minutes 10] [--threads 3]

Meant for the check build, whose verifier compares each collection with plain reachability.
Exits with 1 if a process crashes, a live object is lost or memory grows.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import click

import pasture.gc

GROWTH_LIMIT_BYTES = 24_000_000
"""Of resident memory at its lowest, from the second quarter of the time to the last: in
between, garbage that waits for a collection comes and goes."""


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
    pasture.gc.collect(frozen=True)
    pid = os.fork()
    if pid == 0:
        work(seed + 1, time.monotonic() + 0.1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os._exit(1 if status else 0)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch(until: float) -> tuple[int, list[int]]:
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
        samples.append(resident_bytes())
    return forks, samples


@click.command(help=__doc__)
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--threads", default=3, show_default=True)
def main(minutes: float, threads: int) -> None:
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
    quarter = len(samples) // 4
    growth = min(samples[-quarter:]) - min(samples[quarter : 2 * quarter])
    history = pasture.gc.history()
    print(
        f"{minutes:g} minutes: {history.collections:,} full collections, {forks:,} forks, "
        f"{Finalized.count:,} objects finalized, memory grew by {growth / 1e6:.1f} MB"
    )
    sys.exit(growth > GROWTH_LIMIT_BYTES or history.collections == 0)


if __name__ == "__main__":
    main()
