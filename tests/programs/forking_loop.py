"""A loop whose workers read a large list: `forking_loop.py WORKERS [STATUS]`."""

import multiprocessing
import sys
import time

ITEMS = [{"id": 1000 + i, "name": f"item {i}"} for i in range(60_000)]


def read(_):
    found = sum(item["id"] + len(item["name"]) for item in ITEMS)
    time.sleep(3)  # each worker gets one, and is seen on a busy machine, too
    return found


if __name__ == "__main__":
    workers, *status = map(int, sys.argv[1:])
    if workers:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            assert len(set(pool.map(read, range(workers), chunksize=1))) == 1
    print("items/s: 12,345.5")
    sys.exit(*status)
