"""Workers that a library spawns: what each has for itself, and all processes together.

python examples/spawned_pool.py multiprocessing
pasture run --fork-spawned -- python examples/spawned_pool.py multiprocess
pasture run --fork-spawned -- python examples/spawned_pool.py billiard
"""

import importlib
import os
import sys
import time

from processes import kib, tree

WORKERS = 4
RECORDS = [{"id": number, "name": f"name {number}"} for number in range(60_000)]


def read(_):
    total = sum(len(record["name"]) for record in RECORDS)
    time.sleep(0.3)
    return total, kib(os.getpid(), "Private")


def show(results):
    pss = sum(kib(pid, "Pss:") for pid in tree(os.getpid()))
    largest = max(private for _, private in results)
    print(
        f"{len({one for one, _ in results})} result, {largest / 976.6:.1f} MB private in a worker,"
    )
    print(f"{pss / 976.6:.0f} MB in all processes")


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    with library.get_context("spawn").Pool(WORKERS) as pool:
        show(pool.map(read, range(4 * WORKERS), 1))
