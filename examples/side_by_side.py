"""Runs an example without pasture and with it, and prints what each costs.

    python -m examples.side_by_side examples/data_loader.py

The example takes `--plain` and ends with a line of JSON: {"sealed": bool, "workers":
[{"private": bytes, "pss": bytes}, ...]}. `make demo-pool` and its like call this.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from pasture.errors import ServerFailed
from pasture_tools.launch.session import Group

MB = 1e6
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the workers of one run took.

    Attributes:
        name: of the run.
        private_bytes: one worker's private memory, the largest.
        total_pss_bytes: proportional memory of all workers together.
        workers: how many there were.
    """

    name: str
    private_bytes: int
    total_pss_bytes: int
    workers: int


def run(name: str, program: Path, *arguments: str) -> Outcome:
    """Run an example in a process of its own; whatever it starts ends with it.

    Raises:
        ServerFailed: it failed, or took too long.
    """
    command = [sys.executable, str(program), *arguments]
    with TemporaryDirectory() as folder, Group(command, log=Path(folder) / "log") as example:
        if example.wait(LIMIT_S) != 0:
            raise example.failure(f"{program} failed")
        lines = example.log.splitlines()
    workers = json.loads(next(line for line in lines[::-1] if line.startswith("{")))["workers"]
    return Outcome(
        name,
        max(worker["private"] for worker in workers),
        sum(worker["pss"] for worker in workers),
        len(workers),
    )


def table_of(title: str, outcomes: list[Outcome]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("workers", "private, each (MB)", "PSS, all (MB)", "ratio of PSS"):
        table.add_column(heading, justify="right")
    first = outcomes[0]
    for outcome in outcomes:
        table.add_row(
            outcome.name,
            str(outcome.workers),
            f"{outcome.private_bytes / MB:.1f}",
            f"{outcome.total_pss_bytes / MB:.1f}",
            f"{outcome.total_pss_bytes / first.total_pss_bytes:.2f}",
        )
    return table


def main() -> None:
    program, *arguments = sys.argv[1:]
    try:
        outcomes = [
            run("without", Path(program), "--plain", *arguments),
            run("with", Path(program), *arguments),
        ]
    except ServerFailed as error:
        sys.exit(f"error: {error.message}\n{error.hint}")
    title = f"{Path(program).stem} on CPython {platform.python_version()}, without pasture and with"
    Console(width=100).print(table_of(title, outcomes))


if __name__ == "__main__":
    main()
