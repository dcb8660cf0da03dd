"""One measurement of `benchmarks.heap`, in a process of its own: JSON on standard output.

    python benchmarks/programs/heap.py VARIANT OBJECTS

The parent builds the objects, takes the variant's steps and forks. The child reads
every object, then collects. Nothing else runs in the parent until the child has gone:
a page that the parent writes becomes the child's own, too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Steps = dict[str, float]
"""Seconds of wall time of each step of a variant, by its name."""

NOT_HERE = 77
"""Exit status of a variant that this interpreter does not have."""


def build(objects: int) -> list[dict[str, Any]]:
    return [
        {
            "id": 1000 + i,
            "name": f"object number {i}",
            "tags": [2 * i + 1000, 3 * i + 1000, f"tag {i}"],
            "more": {"size": 5 * i + 1000, "label": f"label {i}"},
        }
        for i in range(objects)
    ]


def read(shelf: list[dict[str, Any]]) -> int:
    """Visit every object down to its numbers and strings."""
    total = 0
    for thing in shelf:
        total += thing["id"] + len(thing["name"])
        for tag in thing["tags"]:
            total += tag if isinstance(tag, int) else len(tag)
        for key, value in thing["more"].items():
            total += len(key) + (value if isinstance(value, int) else len(value))
    return total


def take_none() -> Steps:
    return {}


def take_freeze() -> Steps:
    start = time.perf_counter()
    gc.freeze()
    return {"freeze": time.perf_counter() - start}


def take_cinderx() -> Steps:
    """Its one call collects, freezes and makes immortal; the collection is distinguished here."""
    import cinderx  # type: ignore[import-not-found,import-untyped,unused-ignore]

    collecting: list[float] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collecting.append(time.perf_counter())

    gc.callbacks.append(note)
    start = time.perf_counter()
    cinderx.immortalize_heap()
    seconds = time.perf_counter() - start
    gc.callbacks.remove(note)
    collect = collecting[1] - collecting[0]
    return {"collect": collect, "freeze + immortalize": seconds - collect}


def take_seal() -> Steps:
    import pasture

    report = pasture.seal("seal", strict=True)
    return {step.name: step.seconds for step in report.steps if not step.skipped}


def prepare_stock() -> Callable[[], Steps]:
    return take_none


def prepare_freeze() -> Callable[[], Steps]:
    gc.disable()
    return take_freeze


def prepare_cinderx() -> Callable[[], Steps]:
    try:
        import cinderx
    except ImportError as error:
        raise SystemExit(leave_out(str(error))) from None
    if not cinderx.is_initialized():
        raise SystemExit(leave_out(str(cinderx.get_import_error())))
    return take_cinderx


def prepare_seal() -> Callable[[], Steps]:
    import pasture  # noqa: F401  (an application has imported it long before)

    return take_seal


def leave_out(reason: str) -> int:
    print(reason, file=sys.stderr)
    return NOT_HERE


VARIANTS: dict[str, Callable[[], Callable[[], Steps]]] = {
    "stock": prepare_stock,
    "freeze": prepare_freeze,
    "cinderx": prepare_cinderx,
    "seal": prepare_seal,
}
"""What each does before the objects are built; it returns what is done before the fork."""


def private_bytes() -> int:
    """Private memory of this process, in bytes: proc_pid_smaps_rollup(5)."""
    with Path("/proc/self/smaps_rollup").open("rb") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(b"Private_"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()


def measured(action: Callable[[], object]) -> dict[str, float]:
    """Run one phase of the child."""
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    cpu, start = time.process_time(), time.perf_counter()
    action()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    private = private_bytes()
    return {"seconds": seconds, "cpu_s": cpu, "minor_faults": faults, "private_bytes": private}


def child(shelf: list[dict[str, Any]]) -> dict[str, Any]:
    gc.enable()
    start = private_bytes()
    phases = {"read": measured(lambda: read(shelf)), "collect": measured(gc.collect)}
    return {"start_private_bytes": start, "phases": phases}


def in_child(shelf: list[dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    """Seconds that the fork took, and what `child` found."""
    reader, writer = os.pipe()
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.write(writer, json.dumps(child(shelf)).encode())
        os._exit(0)
    seconds = time.perf_counter() - start
    os.close(writer)
    answer = os.read(reader, 65536)
    os.waitpid(pid, 0)
    return seconds, json.loads(answer)


def main(variant: str, objects: int) -> None:
    take = VARIANTS[variant]()
    before = resident_bytes()
    shelf = build(objects)
    heap = resident_bytes() - before
    cpu, start = time.process_time(), time.perf_counter()
    steps = take()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    fork_s, found = in_child(shelf)
    print(
        json.dumps(
            {
                "version": sys.version.split()[0],
                "heap_bytes": heap,
                "seal_s": seconds,
                "seal_cpu_s": cpu,
                "steps_s": steps,
                "fork_s": fork_s,
                **found,
            }
        ),
        flush=True,
    )
    os._exit(0)  # what the parent's end costs is not in question here


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
