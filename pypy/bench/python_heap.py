"""What the first full collection in a forked child makes private, on a heap of Python objects.

    PYPY_GC_NURSERY=4M PATH pypy/bench/python_heap.py [INSTANCES]

Runs by itself under the interpreter that is asked about. The heap: instances with a string
each, every eighth with a list. Sizes are MB, times processor time in milliseconds.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path


class Record:
    def __init__(self, number: int, before: Record | None) -> None:
        self.number = number
        self.name = f"record {number}"
        self.before = before
        self.group: list[Record] | None = None


def build(instances: int) -> list[Record]:
    records: list[Record] = []
    for number in range(instances):
        record = Record(number, records[-1] if records else None)
        if number % 8 == 0:
            record.group = records[-8:]
        records.append(record)
    return records


def memory() -> tuple[float, float]:
    """Resident and private MB of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = {words[0]: words[1] for words in map(str.split, lines) if len(words) == 3}
    private = int(sizes["Private_Clean:"]) + int(sizes["Private_Dirty:"])
    return int(sizes["Rss:"]) / 1e3, private / 1e3


def collect() -> float:
    start = time.process_time()
    gc.collect()
    return (time.process_time() - start) * 1e3


def child() -> None:
    resident, before = memory()
    first = collect()
    private = memory()[1] - before
    steady = min(collect() for _ in range(5))
    print(f"resident {resident:.0f}, made private {private:.1f}", end=", ")
    print(f"first {first:.0f} ms, steady {steady:.0f} ms", flush=True)


def main() -> None:
    records = build(int(sys.argv[1]) if len(sys.argv) > 1 else 700_000)
    gc.collect()
    gc.collect()
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    sys.exit(status != 0 or not records)


if __name__ == "__main__":
    main()
