"""The outcome of each boot, kept in git next to the page that is made of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from matrix.agents.catalog import Agent
from matrix.agents.runs import Run
from matrix.store import Lines

FILE = Path(__file__).with_name("results.jsonl")


def keep(agent: Agent, server: str, minor: str, policy: str, run: Run, file: Path = FILE) -> None:
    """Keep a result, in place of an older one of the same boot."""
    Lines(file, Run).keep(f"{agent.name} {server} {minor} {policy}", run, digest(agent))


def kept(agent: Agent, server: str, minor: str, policy: str, file: Path = FILE) -> Run | None:
    """What is kept of a boot; None if that is nothing, or of another row."""
    return Lines(file, Run).kept(f"{agent.name} {server} {minor} {policy}", digest(agent))


def digest(agent: Agent) -> str:
    """What stands for all that decides what is run."""
    text = json.dumps(agent.measured, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
