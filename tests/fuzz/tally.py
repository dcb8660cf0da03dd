"""How many cases were run on an interpreter, kept over runs in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path

_ZERO = {
    "cases": 0,
    "operations": 0,
    "failures": 0,
    "cpu_seconds": 0.0,
    "seconds": 0.0,
    "next_seed": 1,
}


class Tally:
    """Counts in a JSON file, written after each case.

    Attributes:
        operations: carried out by cases that did not fail, those of children included.
        next_seed: one more than the highest seed that was run.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._begin = time.monotonic()
        data = dict(_ZERO)
        if path.exists():
            data |= json.loads(path.read_text())
        self.cases = int(data["cases"])
        self.operations = int(data["operations"])
        self.failures = int(data["failures"])
        self.next_seed = int(data["next_seed"])
        self.cpu_seconds = float(data["cpu_seconds"])
        self._seconds_before = float(data["seconds"])

    def add(self, seed: int, operations: int, failed: bool, cpu_seconds: float) -> None:
        self.cases += 1
        self.failures += failed
        self.operations += 0 if failed else operations
        self.cpu_seconds += cpu_seconds
        self.next_seed = max(self.next_seed, seed + 1)
        self._write()

    def _write(self) -> None:
        data = {
            "cases": self.cases,
            "operations": self.operations,
            "failures": self.failures,
            "cpu_seconds": round(self.cpu_seconds, 1),
            "seconds": round(self._seconds_before + time.monotonic() - self._begin, 1),
            "next_seed": self.next_seed,
        }
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(data, indent=1) + "\n")
        beside.replace(self._path)

    def text(self) -> str:
        return (
            f"{self.name}: {self.cases:,} cases, {self.operations:,} operations, "
            f"{self.failures:,} failures, "
            f"{self.operations / max(self.cpu_seconds, 0.1):.0f} operations a second of CPU"
        )
