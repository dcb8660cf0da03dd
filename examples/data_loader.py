"""A data loader: the parent holds two million small objects, eight workers read them all.

    python examples/data_loader.py            # sealed
    python examples/data_loader.py --plain    # as it is without pasture

Each worker goes through the whole list several times, as the epochs of a training do, and
says how much private memory it has then. The last line is JSON.
"""

import argparse
import json
import os

import pasture

WORKERS = 8


def make_samples(count):
    """A list of dicts, strings and floats, `count` objects in all."""
    return [
        {"path": f"train/{i:07}.jpg", "label": f"class {i % 1000}", "weight": i / 7}
        for i in range(count // 4)
    ]


def private_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def pss_bytes(pid="self"):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def read_all(epochs):
    """One worker's work: read every field of every sample."""
    total = 0.0
    for _ in range(epochs):
        for sample in samples:
            path, label = sample["path"], sample["label"]
            total += len(path) + len(label) + sample["weight"]
    barrier.wait(120)  # no process has left while anybody measures
    found = {"pid": os.getpid(), "private": private_bytes(), "pss": pss_bytes(), "total": total}
    barrier.wait(120)
    return found


def work(context, epochs):
    global barrier
    barrier = context.Barrier(WORKERS)
    with context.Pool(WORKERS) as pool:
        return pool.map(read_all, [epochs] * WORKERS, chunksize=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without pasture")
    parser.add_argument("--objects", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()

    samples = make_samples(arguments.objects)
    policy = "stock" if arguments.plain else None
    with pasture.sealed(policy=policy) as herd:
        found = work(herd.context, arguments.epochs)
    print(json.dumps({"sealed": herd.report.sealed, "workers": found}))
