"""Prints, as JSON, what a forked child that reads all of its parent's heap has for itself.

Run by the interpreter under test, with "stock" or "sealed". Both heaps are the same. The child
reads every object, runs a full collection and then counts.
"""

import gc
import json
import os
import sys
from pathlib import Path

MIB = 1 << 20
RECORDS = 170_000
"""With what the interpreter needs, they make a heap of about 76 MB."""


def make_heap():
    return [{"id": i, "name": f"record {i}", "tags": [i, str(i)]} for i in range(RECORDS)]


def read(records):
    return sum(len(record["name"]) + len(record["tags"][1]) for record in records)


def memory_bytes():
    """Resident bytes, and those of them that no other process shares."""
    with Path("/proc/self/smaps_rollup").open() as lines:
        fields = [line.split() for line in lines if line.startswith(("Rss:", "Private_"))]
    kib = {words[0]: int(words[1]) for words in fields}
    return kib["Rss:"] << 10, (kib["Private_Clean:"] + kib["Private_Dirty:"]) << 10


def in_child(records):
    """What `memory_bytes` says in a child that has read the records."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        read(records)
        gc.collect()
        os.write(writing, json.dumps(memory_bytes()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        words = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"the child ended with status {status:#x}")
    return json.loads(words)


def main():
    records = make_heap()
    answer = {"reason": None, "skipped": {}}
    if sys.argv[1:] == ["sealed"]:
        import pasture

        report = pasture.seal()
        answer["reason"] = report.reason
        answer["skipped"] = {step.name: step.skipped for step in report.steps if step.skipped}
    resident, private = in_child(records)
    answer |= {"heap_mib": resident / MIB, "private_mib": private / MIB}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
