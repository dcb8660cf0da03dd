"""Training loops, servers and images on one GPU: `make bench-gpu`, at most six minutes.

Owns the order, the time limits and the files: `results.json` after each part, and `results.txt`.
The parts run programs of `tests/programs/gpu`. A part that fails leaves its error in the results,
and the next one runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.gpu import images, loaders, processes, servers
from benchmarks.gpu.machine import Machine, missing
from benchmarks.gpu.table import text_of

PARTS = {
    "loaders": (loaders.measure, 140.0),
    "images": (images.measure, 130.0),
    "servers": (servers.measure, 70.0),
    "processes": (processes.measure, 30.0),
    "llama": (images.measure_llama, 100.0),
}
"""What runs, in this order, and how many seconds it may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("var/gpu"), metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=330.0, help="for all parts")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--on-cpu", action="store_true", help="to try the programs without a GPU")
    given = parser.parse_args()
    if why := missing(needs_gpu=not given.on_cpu):
        print(f"skipped: {why}")
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + given.seconds
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pasture-gpu-") as scratch:
        for name in given.part or PARTS:
            measure, limit = PARTS[name]
            began = time.monotonic()
            machine = Machine(
                Path(scratch), min(ends, began + limit), given.records, given.workers, given.out
            )
            rows = results[name] = {"rows": []}
            try:
                for row in measure(machine):
                    rows["rows"].append(row)
                    write(given.out, results)
            except Exception:
                rows["error"] = traceback.format_exc(limit=-3)
            rows["seconds"] = round(time.monotonic() - began, 1)
            write(given.out, results)
            print(text_of(name, rows), flush=True)
    return 0


def write(folder: Path, results: dict[str, Any]) -> None:
    (folder / "results.json").write_text(json.dumps(results, indent=1))
    (folder / "results.txt").write_text(
        "\n".join(text_of(name, rows) for name, rows in results.items())
    )


if __name__ == "__main__":
    sys.exit(main())
