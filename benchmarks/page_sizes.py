"""Private memory of a child, stock, frozen and sealed, on the kernel that this runs on.

    python -m benchmarks.page_sizes [OBJECTS]

A table for one page size, in the columns of `benchmarks.heap`, by the standard library alone: it
also runs where nothing else is installed, as under the kernels that tools/arm64 boots.
"""

from __future__ import annotations

import json
import mmap
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "programs" / "heap.py"
VARIANTS = ("stock", "freeze", "seal")
OBJECTS = 94_000
"""About as many as make 76 MB."""

MB = 1e6


def measure(variant: str, objects: int) -> dict[str, Any]:
    """What one process found; benchmarks/programs/heap.py says what that is.

    Raises:
        CalledProcessError: it failed. Its own words are on standard error.
    """
    command = [sys.executable, str(PROGRAM), variant, str(objects)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(variant: str, found: dict[str, Any]) -> str:
    phases = found["phases"]
    amounts = (
        found["heap_bytes"],
        found["start_private_bytes"],
        phases["read"]["private_bytes"],
        phases["collect"]["private_bytes"],
    )
    faults = sum(phase["minor_faults"] for phase in phases.values())
    columns = "".join(f"{amount / MB:>11.2f}" for amount in amounts)
    return f"{variant:<8}{columns}{faults:>9,}"


def main() -> None:
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS
    kernel, python = platform.release(), platform.python_version()
    print(f"{platform.machine()}, pages of {mmap.PAGESIZE >> 10} KiB, {kernel}, CPython {python}")
    print(f"{'':<8}{'heap MB':>11}{'forked MB':>11}{'read MB':>11}{'coll. MB':>11}{'faults':>9}")
    for variant in VARIANTS:
        print(row(variant, measure(variant, objects)), flush=True)


if __name__ == "__main__":
    main()
