"""The heap of this process in huge pages, by hand: what the kernel takes, and what it refuses."""

import collections
import ctypes
import errno
import os
import struct
import time
from pathlib import Path

HUGE_BYTES = 1 << 21
PAGE_BYTES = 4096
MADV_COLLAPSE = 25


def heap():
    """Begin and end of each private mapping without a file that can be written."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, _, _, inode, *name = line.split(maxsplit=5)
        if mode.startswith("rw-p") and inode == "0" and (not name or name[0] == "[heap]"):
            begin, end = (int(part, 16) for part in span.split("-"))
            yield begin, end


def pages_there(pagemap, address):
    """Whether all pages of a range are in memory, some, or none."""
    entries = os.pread(pagemap, HUGE_BYTES // PAGE_BYTES * 8, address // PAGE_BYTES * 8)
    count = sum(entry >> 63 for (entry,) in struct.iter_unpack("Q", entries))
    return "none" if count == 0 else "all" if count == HUGE_BYTES // PAGE_BYTES else "some"


def collapse():
    libc = ctypes.CDLL(None, use_errno=True)
    counts = collections.Counter()
    began = time.perf_counter()
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    for begin, end in heap():
        first = -(-begin // HUGE_BYTES) * HUGE_BYTES
        for address in range(first, end - HUGE_BYTES + 1, HUGE_BYTES):
            there = pages_there(pagemap, address)
            done = libc.madvise(
                ctypes.c_void_p(address), ctypes.c_size_t(HUGE_BYTES), MADV_COLLAPSE
            )
            result = "taken" if done == 0 else errno.errorcode[ctypes.get_errno()]
            counts[f"{result} of {there}"] += 1
        counts["outside_mb"] += (
            (end - begin) - max(0, end // HUGE_BYTES * HUGE_BYTES - first)
        ) >> 20
    rollup = Path("/proc/self/smaps_rollup").read_text()
    huge_kb = next(line for line in rollup.splitlines() if line.startswith("AnonHuge")).split()[1]
    return {
        **counts,
        "seconds": time.perf_counter() - began,
        "huge_mb": int(huge_kb) >> 10,
    }
