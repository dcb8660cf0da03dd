"""Memory of a process and of all below it, from /proc, by the standard library alone.

Spawned workers import this: `memory`, with psutil, would add to what they have for themselves.
"""

from pathlib import Path


def kib(pid, field):
    """What a process has in the fields that begin so, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(field))


def tree(pid):
    """The process and all below it."""
    below = Path(f"/proc/{pid}/task").glob("*/children")
    return [
        pid,
        *(each for file in below for one in file.read_text().split() for each in tree(one)),
    ]
