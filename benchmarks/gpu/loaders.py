"""DataLoader with workers that are forked: stock, sealed before and after CUDA."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.machine import PROGRAMS, Machine

WAYS = ("stock", "after", "before")
FIGURES = ("items_per_second", "workers_processor_s", "start_s", "pss_mb", "seal_s")
ROUNDS = 2


def measure(machine: Machine) -> Iterator[dict[str, Any]]:
    """Rounds of all ways, as far as the time goes; the last rows are medians."""
    file = machine.scratch / "records"
    yield machine.run(
        "records", sys.executable, PROGRAMS / "records.py", file, str(machine.records)
    )
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    longest_s = 10.0
    for number in range(ROUNDS):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            if not machine.has_time(1.3 * longest_s):
                break
            program = (sys.executable, PROGRAMS / "loader.py", way, file)
            row = machine.run(f"{way} {number}", *program, "--workers", str(machine.workers))
            longest_s = max(longest_s, row["wall_s"])
            if "items_per_second" in row:
                found[way].append(row)
            yield row
    file.unlink(missing_ok=True)
    yield from map(median, (rows for rows in found.values() if rows))


def median(rows: list[dict[str, Any]]) -> dict[str, Any]:
    figures = {
        name: statistics.median(row[name] for row in rows) for name in FIGURES if name in rows[0]
    }
    private = statistics.median(mb for row in rows for mb in row["private_mb"])
    losses = sorted({row["loss"] for row in rows})
    return {"name": f"median {rows[0]['way']}", **figures, "private_mb": private, "losses": losses}
