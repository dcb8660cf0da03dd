"""The micro test of December 2017: lists with strings between them, a fork, a collection.

    python micro_heap.py VARIANT LISTS STRINGS

The parent appends LISTS times an empty list to one list and STRINGS strings of eight
characters to another, takes the variant's step and forks. The child collects. The strings are
built from a variable: a constant expression would be folded to one shared object, and the
test would show nothing.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def fill(count: int, strings_each: int) -> tuple[list[list[Any]], list[str]]:
    lists: list[list[Any]] = []
    strings: list[str] = []
    blank = " "
    for _ in range(count):
        lists.append([])
        for _ in range(strings_each):
            strings.append(blank * 8)
    return lists, strings


def memory() -> dict[str, int]:
    """Private memory and RSS of this process, in bytes: proc_pid_smaps_rollup(5)."""
    found = {"private_bytes": 0, "rss_bytes": 0}
    with Path("/proc/self/smaps_rollup").open("rb") as lines:
        for line in lines:
            name, _, rest = line.partition(b":")
            if name in (b"Private_Clean", b"Private_Dirty"):
                found["private_bytes"] += 1024 * int(rest.split()[0])
            elif name == b"Rss":
                found["rss_bytes"] = 1024 * int(rest.split()[0])
    return found


def collect_out_of_line() -> dict[str, int]:
    import pasture.gc

    pasture.gc.collect()
    history = pasture.gc.history()
    return {"objects": history.objects, "scratch_bytes": history.scratch_bytes}


def collect_built_in() -> dict[str, int]:
    gc.collect()
    return {"objects": len(gc.get_objects())}


def prepare_out_of_line() -> None:
    import pasture.gc  # noqa: F401  (an application has imported it long before)


def seal() -> None:
    import pasture

    pasture.seal("seal", strict=True)


VARIANTS: dict[str, tuple[Callable[[], object], Callable[[], dict[str, int]]]] = {
    "stock": (lambda: None, collect_built_in),
    "freeze": (gc.freeze, collect_built_in),
    "out-of-line": (prepare_out_of_line, collect_out_of_line),
    "seal": (seal, collect_out_of_line),
}
"""The parent's steps before the fork, and the child's collections."""


def child(collect: Callable[[], dict[str, int]]) -> dict[str, int]:
    before = memory()
    found = collect()
    after = memory()
    for name, value in before.items():
        found[f"{name.removesuffix('_bytes')}_growth_bytes"] = after[name] - value
    return found


def main(variant: str, count: int, strings_each: int) -> None:
    before_fork, collect = VARIANTS[variant]
    kept = fill(count, strings_each)
    distinct = len({id(string) for string in kept[1]})
    before_fork()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, json.dumps(child(collect)).encode())
        os._exit(0)
    os.close(writer)
    found = json.loads(os.read(reader, 65536))
    os.waitpid(pid, 0)
    heap = memory()["rss_bytes"]
    print(json.dumps({**found, "distinct_strings": distinct, "heap_bytes": heap}), flush=True)
    os._exit(0)  # what the parent's end costs is not in question here


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
