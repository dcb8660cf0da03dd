"""How many cases were run on an interpreter, kept over runs in a file."""

from __future__ import annotations

import json
from pathlib import Path

_NAMES = ("cases", "operations", "failures", "cpu_seconds", "next_seed")


class Tally:
    """Counts in a JSON file, written after each case.

    Attributes:
        counts: by name; `operations` are those of cases that did not fail, with those of children,
            `next_seed` is one more than the highest seed that was run.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path
        kept = json.loads(path.read_text()) if path.exists() else {"next_seed": 1}
        self.counts: dict[str, float] = {name: kept.get(name, 0) for name in _NAMES}

    def add(self, seed: int, operations: int, failed: bool, cpu_seconds: float) -> None:
        counts = self.counts
        counts["cases"] += 1
        counts["failures"] += failed
        counts["operations"] += 0 if failed else operations
        counts["cpu_seconds"] = round(counts["cpu_seconds"] + cpu_seconds, 1)
        counts["next_seed"] = max(counts["next_seed"], seed + 1)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(counts, indent=1) + "\n")
        beside.replace(self._path)

    def text(self) -> str:
        cases, operations, failures, seconds, _ = self.counts.values()
        return (
            f"{self.name}: {cases:,} cases, {operations:,} operations, {failures:,} failures, "
            f"{operations / max(seconds, 0.1):.0f} operations a second of CPU"
        )
