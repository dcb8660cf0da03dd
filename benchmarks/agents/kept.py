"""What came of each boot, kept in build/agents, so that a run can be taken up again.

Invariant: a result is only given back for the same row of agents.toml.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.agents.catalog import Agent
from benchmarks.agents.environments import BUILD
from benchmarks.agents.runs import Delivery, Run


def _file(agent: Agent, server: str, minor: str, policy: str) -> Path:
    return BUILD / "results" / f"{agent.name}-{server}-{minor}-{policy}.json"


def keep(agent: Agent, server: str, minor: str, policy: str, run: Run) -> None:
    path = _file(agent, server, minor, policy)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"measured": agent.measured, "run": asdict(run)}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def kept(agent: Agent, server: str, minor: str, policy: str) -> Run | None:
    """What is kept of a boot; None if that is nothing, or of another row."""
    try:
        document = json.loads(_file(agent, server, minor, policy).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if document["measured"] != json.loads(json.dumps(agent.measured)):
        return None
    fields: dict[str, Any] = document["run"]
    for name in ("steady", "last"):
        fields[name] = Delivery(**_tuples(fields[name]))
    return Run(**_tuples(fields))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
