"""What a child makes private by reading what its parent has, MB: [freeze] or [seal].

It reads 500,000 records, and a collection follows.
"""

import gc
import os
import sys
from pathlib import Path

import pasture


def private_mb():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


records = [{"id": i, "name": f"n{i}", "tags": [str(i)]} for i in range(500_000)]
if "freeze" in sys.argv:
    gc.collect()
    gc.freeze()
if "seal" in sys.argv:
    pasture.seal()
if os.fork() == 0:
    before = private_mb()
    length = sum(len(record["name"]) + len(record["tags"][0]) for record in records)
    gc.collect()
    print(f"{private_mb() - before:.1f} MB", flush=True)
    os._exit(0)
os.wait()
