"""The fork of a parent with 1 GB of records, and what its children read and write.

Stock, frozen, sealed in small pages, and sealed as after `pasture run`, in huge pages. Each
measurement is a process of its own (programs/fork.py), and the ways take turns round by round.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.spread import paired_ratio, spread_of

PROGRAM = Path(__file__).parent / "programs" / "fork.py"
WAYS = ("stock", "freeze", "seal", "huge")
TIMEOUT_S = 600

Found = Mapping[str, Any]
Take = Callable[[Found], float]

COLUMNS: tuple[tuple[str, Take, float], ...] = (
    ("RSS, MB", itemgetter("rss_bytes"), 1e6),
    ("a fork, ms of processor", itemgetter("fork_s"), 1e-3),
    ("next to children that read", itemgetter("busy_fork_s"), 1e-3),
    ("read all, s of processor", lambda found: float(found["read"]["processor_s"]), 1),
    ("private then, MB", lambda found: float(found["read"]["private_bytes"]), 1e6),
    ("private after 2,000 writes", lambda found: float(found["write"]["private_bytes"]), 1e6),
    ("loaded in, s of processor", itemgetter("load_s"), 1),
)
GOALS: tuple[tuple[str, str, Take, float], ...] = (
    ("processor time of a fork", "stock", COLUMNS[1][1], 0.3),
    ("processor time of reading all", "seal", COLUMNS[3][1], 0.85),
    ("private memory after writes", "seal", COLUMNS[5][1], 1.02),
    ("resident memory", "seal", COLUMNS[0][1], 1.03),
)
"""Of huge pages: what, to which way, and the ratio that is wanted."""


def measure(way: str, records: int) -> Found:
    done = subprocess.run(
        [sys.executable, PROGRAM, way, str(records)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise click.ClickException(f"{way} failed:\n{done.stderr}")
    found: Found = json.loads(done.stdout)
    return found


def table_of(rounds: Mapping[str, list[Found]]) -> Table:
    table = Table("way", *(title for title, _, _ in COLUMNS), box=box.SIMPLE_HEAD)
    for way, found in rounds.items():
        cells = (spread_of(map(take, found)).cell(scale) for _, take, scale in COLUMNS)
        table.add_row(way, *cells)
    return table


@click.command(help=__doc__)
@click.option("--records", default=650_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All figures.")
def main(records: int, rounds: int, json_file: Path | None) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    found: dict[str, list[Found]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            found[way].append(measure(way, records))
    console.print(table_of(found))
    for name, other, take, limit in GOALS:
        ratio = paired_ratio([take(f) for f in found["huge"]], [take(f) for f in found[other]])
        verdict = "met" if ratio.median <= limit else "MISSED"
        console.print(f"{name}, huge to {other}: {ratio.text()}, goal {limit}: {verdict}")
    if json_file is not None:
        json_file.write_text(json.dumps({"records": records, "rounds": found}, indent=1))


if __name__ == "__main__":
    main()
