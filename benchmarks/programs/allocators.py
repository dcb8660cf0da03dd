"""What `benchmarks.allocators` runs: a parent with holes, sealed, and a child that allocates.

Prints the child's private memory in KiB. Words: the names of steps of the seal to leave out.
"""

from __future__ import annotations

import dataclasses
import os
import random
import sys

import pasture
from pasture.proc.smaps import read_memory

ROUNDS = 12_000
GARBAGE_MAX = 4_000


def build(dice: random.Random) -> list[object]:
    """Some 76 MB of dictionaries, lists and texts, between which as much was freed in part."""
    kept: list[object] = []
    freed: list[object] = []
    for number in range(ROUNDS):
        kept.append({f"k{key}": key * 1.5 for key in range(dice.randrange(1, 30))})
        for rows in (kept, freed):
            rows.append([number] * dice.randrange(1, 400))
            rows.append(bytes(dice.randrange(1, 3000)))
        if len(freed) > GARBAGE_MAX:
            dice.shuffle(freed)
            del freed[: GARBAGE_MAX // 2]
    return kept


def allocate(dice: random.Random) -> list[object]:
    """1.5 MB of the same kinds."""
    live: list[object] = [{f"k{n}": n for n in range(dice.randrange(1, 30))} for _ in range(300)]
    live += [bytes(dice.randrange(1, 3000)) for _ in range(600)]
    return live + [[1] * dice.randrange(1, 400) for _ in range(300)]


def main() -> None:
    dice = random.Random(3)
    kept = build(dice)
    policy = pasture.POLICIES["seal"]
    heap = tuple(step for step in policy.heap if step not in sys.argv[1:])
    report = pasture.seal(dataclasses.replace(policy, heap=heap))
    if not report.sealed:
        sys.exit(str(report))
    pid = os.fork()
    if pid == 0:
        for _ in range(3):
            live = allocate(dice)
        memory = read_memory(os.getpid())
        print(memory.private_bytes // 1024 if memory else 0, len(live) + len(kept), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
