"""Processor time and memory of a seal and of a second one, and a full collection of the same heap.

    python -m benchmarks.seal --objects 4000000 --rounds 3

A heap is in the order in which it was made, or shuffled: half of it was dropped and made again,
so that neighbours in the collector's lists are none in memory. Each measurement is a process of its
own, and the heaps take turns.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.spread import spread_of

OBJECTS_EACH = {"records": 7, "instances": 4}


class Instance:
    """One of many: four objects with what it holds."""

    def __init__(self, i: int) -> None:
        self.number, self.text, self.part = i + 1000, str(i), i * 0.5


def record(i: int) -> dict[str, Any]:
    return {"id": 1000 + i, "name": f"name {i}", "tags": [str(i), f"tag{i % 97}"], "price": i * 1.5}


def build(kind: str, objects: int, *, shuffled: bool) -> list[Any]:
    make: Callable[[int], Any] = record if kind == "records" else Instance
    count = objects // OBJECTS_EACH[kind]
    gc.disable()
    heap = [make(i) for i in range(count)]
    if shuffled:
        random.seed(1)
        random.shuffle(heap)
        del heap[count // 2 :]
        heap += [make(i) for i in range(count - count // 2)]
        random.shuffle(heap)
    gc.enable()
    return heap


def processor_seconds(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def resident_kb(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0])


def measure(kind: str, objects: int, *, shuffled: bool) -> dict[str, float]:
    """Seconds of processor time by what took them, and the peak of resident memory as a ratio."""
    import pasture

    heap = build(kind, objects, shuffled=shuffled)
    gc.collect()
    found = {"collection": processor_seconds(gc.collect)}
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_kb("VmRSS")
    found["seal"] = processor_seconds(pasture.seal)
    found["peak"] = resident_kb("VmHWM") / before
    found["again"] = processor_seconds(pasture.seal)
    return found if heap else {}


def measured(kind: str, objects: int, order: str) -> dict[str, float]:
    """The same, in a process of its own."""
    words = ["-m", "benchmarks.seal", "--only", kind, order, "--objects", str(objects)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{kind}, {order}: {done.stderr}")
    return dict(json.loads(done.stdout))


@click.command()
@click.option("--objects", default=4_000_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", nargs=2, metavar="KIND ORDER", help="Measure here, once; JSON.")
def main(objects: int, rounds: int, only: tuple[str, str] | None) -> None:
    if only:
        print(json.dumps(measure(only[0], objects, shuffled=only[1] == "shuffled")))
        return
    heaps = [(kind, order) for kind in OBJECTS_EACH for order in ("in order", "shuffled")]
    found = [[measured(kind, objects, order) for kind, order in heaps] for _ in range(rounds)]
    table = Table(box=box.SIMPLE, title=f"{objects:,} objects, {rounds} rounds, processor time")
    for column in (
        "heap",
        "collection, s",
        "seal, s",
        "of a collection",
        "again, of the first",
        "peak",
    ):
        table.add_column(column)
    for (kind, order), rows in zip(heaps, zip(*found, strict=True), strict=True):
        table.add_row(
            f"{kind}, {order}",
            spread_of(row["collection"] for row in rows).text(),
            spread_of(row["seal"] for row in rows).text(),
            spread_of(row["seal"] / row["collection"] for row in rows).text(),
            spread_of(row["again"] / row["seal"] for row in rows).text(),
            spread_of(row["peak"] for row in rows).text(),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
