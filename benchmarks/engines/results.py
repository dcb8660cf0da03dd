"""Results of rows, kept as JSON files in var/engines/: a file a row, rewritten after each start.

Owns what makes a kept start count still: the same row, the same pins, the same interpreter.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import VARIANTS, Engine, Figures, Variant
from benchmarks.engines.environments import pins_of
from benchmarks.uv import REPOSITORY
from pasture.display.records import decoded

FOLDER = REPOSITORY / "var" / "engines"


@dataclass(slots=True)
class Result:
    """The starts of one row so far.

    Attributes:
        key: of what they were measured with.
        versions: of what was measured, by name.
        starts: by variant, a figure a round.
        load: load average of the machine before each start.
    """

    key: str
    versions: Mapping[str, str] = field(default_factory=dict)
    starts: dict[Variant, list[Figures]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    def rounds(self) -> int:
        """Number of rounds that have both variants."""
        return min(len(self.starts.get(variant, [])) for variant in VARIANTS)

    def add(self, variant: Variant, figures: Figures) -> None:
        self.starts.setdefault(variant, []).append(figures)
        self.load.append(round(os.getloadavg()[0], 1))


def key_of(engine: Engine, python: str) -> str:
    """A digest of what the figures of a row depend on, pasture's own code left out.

    Args:
        python: version of the interpreter that is measured.
    """
    source = inspect.getsource(engine.measure)
    parts = [engine.name, engine.workers, source, python, dict(pins_of(engine.packages))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def load(engine: Engine, folder: Path = FOLDER) -> Result | None:
    """What is kept of a row, whatever its key; None where there is nothing that can be read."""
    try:
        kept = json.loads((folder / f"{engine.name}.json").read_text())
        result: Result = decoded(Result, kept)
    except (OSError, ValueError, TypeError):
        return None
    return result


def save(engine: Engine, result: Result, folder: Path = FOLDER) -> None:
    """Keep a result; a reader sees the old file or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = asdict(result)
    beside = folder / f".{engine.name}.json.{os.getpid()}"
    beside.write_text(json.dumps(document, indent=2) + "\n")
    beside.replace(folder / f"{engine.name}.json")
