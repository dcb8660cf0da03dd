"""A parent that works between its seals: it makes garbage, and replaces some of what is sealed.

    python -m benchmarks.programs.churn SIZES SECONDS PAUSE REPLACED

Seals once a pause, forks a child that reads all and collects, and adds its size to a file of
samples (`benchmarks.faults.growth`).
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from pathlib import Path

import pasture
from benchmarks.faults.growth import Growth

KEPT = 30_000
GARBAGE = 10_000
"""Records that are alive, and that are made and dropped between two seals."""


def record(number: int) -> dict[str, object]:
    return {"id": number, "name": f"record {number}", "tags": [f"tag {number}", number / 7]}


def churn(kept: list[dict[str, object]], replaced: int, chance: random.Random) -> None:
    for number in range(GARBAGE):
        dead = record(number)
        dead["self"] = dead
    for _ in range(replaced):
        kept[chance.randrange(KEPT)] = record(chance.randrange(10**9))


def child(kept: list[dict[str, object]]) -> int:
    """Status of a forked process that reads all."""
    if pid := os.fork():
        return os.waitpid(pid, 0)[1]
    gc.collect()
    os._exit(0 if len({id(one) for one in kept}) == KEPT else 1)


def main(sizes: Path, seconds: float, pause_s: float, replaced: int) -> int:
    growth, chance = Growth(sizes), random.Random(0)
    kept = [record(number) for number in range(KEPT)]
    deadline, seals = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        churn(kept, replaced, chance)
        if not pasture.seal().sealed:
            return 2
        seals += 1
        if status := child(kept):
            return status
        growth.note({"parent": [os.getpid()]}, seals)
        time.sleep(pause_s)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
