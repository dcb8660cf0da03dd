"""The findings of `pasture doctor`: one each, for a terminal, and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from pasture_tools.display.units import count
from pasture_tools.doctor.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str  # its name, stable
    is_obstacle: bool  # whether it costs shared memory
    what: str  # what was found, one sentence without a full stop
    cost: str = ""  # what it costs; "" if it is in order
    fix: str = ""  # how to fix it; "" if it is in order


Check = Callable[[Evidence], Iterator[Finding]]


def print_findings(findings: Sequence[Finding], console: Console, state: str = "") -> None:
    """Print the server's state, obstacles with cost and remedy, then what is in order."""
    if state:
        console.print(Text(state, style="bold"))
    for finding in findings:
        mark, style = ("!", "yellow") if finding.is_obstacle else ("-", "green")
        console.print(Text(f"{mark} {finding.check}: {finding.what}", style=style))
        if finding.cost:
            console.print(Text(f"    costs: {finding.cost}"))
        if finding.fix:
            console.print(Text(f"    fix:   {finding.fix}"))
    obstacles = sum(finding.is_obstacle for finding in findings)
    console.print(Text(verdict(obstacles), style="bold"))


def verdict(obstacles: int) -> str:
    """The findings in one line."""
    return f"{count(obstacles, 'obstacle')} found" if obstacles else "nothing stands in the way"


def as_document(master_pid: int, findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as plain values, schema 1."""
    return {"schema": 1, "master": master_pid, "findings": list(map(asdict, findings))}
