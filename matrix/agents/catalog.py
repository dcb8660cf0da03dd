"""The agents that are tried: what agents.toml says of each. Pure reading."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("agents.toml")


@dataclass(frozen=True, slots=True)
class Agent:
    """One table of agents.toml; the keys are explained there.

    Attributes:
        newest: no distribution that was uploaded later is installed.
        servers: packages that every environment holds.
    """

    name: str
    newest: str
    servers: Sequence[str]
    title: str = ""
    packages: Sequence[str] = ()
    recipe: str = ""
    wrapper: Sequence[str] = ()
    place: str = "import"
    kinds: Sequence[str] = ()
    by_clock: bool = False
    service: str = ""
    tls: bool = False
    scrape: str = ""
    plain: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    pasture: str = ""
    advice: str = ""

    @property
    def measured(self) -> dict[str, object]:
        """What decides what is run: a result holds as long as this is the same."""
        texts = ("title", "plain", "before", "after", "pasture", "advice")
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in texts}


def load_agents(file: Path = FILE) -> dict[str, Agent]:
    """Dict of name to agent, in the order of the file; without the application that has none."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    shared = {"newest": tables.pop("newest"), "servers": tables.pop("servers")}
    return {name: Agent(name=name, **shared, **table) for name, table in tables.items()}


def without(agent: Agent) -> Agent:
    """The application alone, to compare an agent with."""
    return Agent(name="none", newest=agent.newest, servers=agent.servers, title="no agent")
