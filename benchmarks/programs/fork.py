"""One measurement of `benchmarks.fork`, in a process of its own: JSON on standard output.

    python fork.py WAY RECORDS

The parent builds records, takes the way's steps, and forks: children that wait, one that reads all
records in random order, one that writes to a few. Processor time is that of who did it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

WAITING = 8
WRITES = 2_000


def records(count: int) -> list[dict[str, Any]]:
    draw = random.Random(7).random
    return [
        {
            "id": 1000 + i,
            "name": f"record {i}",
            "box": [draw() for _ in range(24)],
            "tags": [str(i)],
        }
        for i in range(count)
    ]


def steps_of(way: str) -> dict[str, float]:
    """Takes the steps of a way before the fork; seconds of each."""
    began = time.perf_counter()
    if way == "freeze":
        gc.collect()
        gc.freeze()
    if way in ("seal", "huge"):
        import pasture

        report = pasture.seal(strict=True)
        return {step.name: step.seconds for step in report.steps}
    return {way: time.perf_counter() - began}


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory_bytes(*names: str) -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}
    return sum(found[name] for name in names)


def forks(count: int, work: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds, and seconds, that the parent takes for a fork; children work meanwhile."""
    reader, writer = os.pipe()
    children = []
    began, before = time.perf_counter(), processor_s()
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            work()
            os.read(reader, 1)
            os._exit(0)
        children.append(pid)
    seconds, used = time.perf_counter() - began, processor_s() - before
    os.close(writer)
    os.close(reader)
    for pid in children:
        os.waitpid(pid, 0)
    return used / count, seconds / count


def in_child(work: Callable[[], object]) -> dict[str, float]:
    """Processor time and private memory of a child that works."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = processor_s()
        private = memory_bytes("Private_Clean", "Private_Dirty")
        work()
        found = {
            "processor_s": processor_s() - before,
            "private_bytes": memory_bytes("Private_Clean", "Private_Dirty") - private,
        }
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = json.load(file)
    os.waitpid(pid, 0)
    return dict(found)


def read(heap: Sequence[dict[str, Any]], order: Sequence[int]) -> float:
    total = 0.0
    for record in map(heap.__getitem__, order):
        total += sum(record["box"]) + len(record["name"]) + len(record["tags"][0])
    return total


def write(heap: Sequence[dict[str, Any]], order: Sequence[int]) -> None:
    for i in order[:WRITES]:
        heap[i]["box"][3] = 0.0


def main() -> None:
    way, count = sys.argv[1], int(sys.argv[2])
    gc.disable()
    if way == "huge":
        import pasture
        from pasture.sealing.gc_settings import begin_loading

        begin_loading(pasture.POLICIES["seal"])
    before = processor_s()
    heap = records(count)
    load_s = processor_s() - before
    order = list(range(count))
    random.Random(11).shuffle(order)
    gc.enable()
    steps = steps_of(way)
    found: dict[str, Any] = {"way": way, "steps_s": steps, "load_s": load_s}
    found["rss_bytes"] = memory_bytes("Rss")
    found["huge_bytes"] = memory_bytes("AnonHugePages")
    found["fork_s"], found["fork_wall_s"] = forks(WAITING, lambda: None)
    found["read"] = in_child(lambda: read(heap, order))
    found["write"] = in_child(lambda: write(heap, order))
    found["busy_fork_s"], found["busy_fork_wall_s"] = forks(WAITING, lambda: read(heap, order))
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
