"""What came of each boot, kept in git beside the page that is made of it.

results.jsonl has a line a boot, in order, so that a boot changes one line. Invariant: a result is
only given back for the same row of agents.toml.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.agents.catalog import Agent
from benchmarks.agents.runs import Run
from pasture.display.records import decoded

FILE = Path(__file__).with_name("results.jsonl")

Key = tuple[str, str, str, str]
"""Agent, server, minor version of CPython, policy."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One line.

    Attributes:
        row: a digest of what agents.toml said of the agent.
        run: fields of a `Run`, as JSON has them.
    """

    key: Key
    row: str
    run: Mapping[str, Any]


def keep(agent: Agent, server: str, minor: str, policy: str, run: Run, file: Path = FILE) -> None:
    """Keep a result, in place of an older one of the same boot."""
    lines = _read(file)
    key = (agent.name, server, minor, policy)
    lines[key] = Kept(key, digest(agent), asdict(run))
    text = "".join(json.dumps(asdict(lines[key])) + "\n" for key in sorted(lines))
    whole = file.with_suffix(".new")
    whole.write_text(text, encoding="utf-8")
    whole.replace(file)


def kept(agent: Agent, server: str, minor: str, policy: str, file: Path = FILE) -> Run | None:
    """What is kept of a boot; None if that is nothing, or of another row."""
    found = _read(file).get((agent.name, server, minor, policy))
    if found is None or found.row != digest(agent):
        return None
    run: Run = decoded(Run, found.run)
    return run


def digest(agent: Agent) -> str:
    """What stands for all that decides what is run."""
    text = json.dumps(agent.measured, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(file: Path) -> dict[Key, Kept]:
    try:
        texts = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {line.key: line for line in map(_line, texts)}


@cache  # the file is read for each boot that is asked for
def _line(text: str) -> Kept:
    line: Kept = decoded(Kept, json.loads(text))
    return line
