"""The memory of a server's workers, from /proc, as examples/side_by_side.py wants it."""

import psutil


def of_workers(master_pid):
    """Private memory and PSS of each child of a server: list of dicts, bytes."""
    return [of_process(child.pid) for child in psutil.Process(master_pid).children()]


def of_process(pid):
    found = {"pid": pid, "private": 0, "pss": 0}
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Private"):
                found["private"] += 1024 * int(line.split()[1])
            elif line.startswith("Pss:"):
                found["pss"] = 1024 * int(line.split()[1])
    return found
