"""Sixteen children of the forkserver, the default start method since Python 3.14.

    python examples/forkserver.py            # sealed
    python examples/forkserver.py --plain    # preloaded only, as without pasture

The forkserver has the price list preloaded in both cases; each child reads all of it. The
last line is JSON.
"""

import argparse
import json
import multiprocessing
import os

import price_list

import pasture

CHILDREN = 16


def memory_bytes():
    names = {"Pss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    with open("/proc/self/smaps_rollup") as lines:
        for line in lines:
            name, *rest = line.split()
            if name[:-1] in names:
                names[name[:-1]] = 1024 * int(rest[0])
    return {"pss": names["Pss"], "private": names["Private_Clean"] + names["Private_Dirty"]}


def child(barrier, results):
    total = price_list.value_of_stock()
    barrier.wait(120)  # no process has left while anybody measures
    results.put({"pid": os.getpid(), "total": str(total), **memory_bytes()})
    barrier.wait(120)


def run(context):
    barrier, results = context.Barrier(CHILDREN), context.Queue()
    children = [context.Process(target=child, args=(barrier, results)) for _ in range(CHILDREN)]
    for process in children:
        process.start()
    found = [results.get(timeout=120) for _ in children]
    for process in children:
        process.join(60)
    return found


def plain_context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "price_list"])
    return context


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without pasture")
    plain = parser.parse_args().plain
    context = plain_context() if plain else pasture.sealed_forkserver("price_list")
    print(json.dumps({"sealed": not plain, "workers": run(context)}))
