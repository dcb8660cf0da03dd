"""Full collections, built in and out of line: how long, and what they make private.

Both collectors take turns in one process on the same heap, so that a drift of the machine
meets both; a ratio is formed within a round. Every heap is a process of its own
(programs/collect.py). The page shows the pauses of automatic collections, which also serve
processes that never fork.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from matrix.spread import Spread, paired_ratio, spread_of

PROGRAM = Path(__file__).parent / "programs" / "collect.py"
HEAPS = {
    "ordered": 1_500_000,
    "shuffled": 1_500_000,
    "cycles": 1_000_000,
    "tuples": 5_000_000,
    "django": 0,
}
"""Name to number of objects."""

RATIO_GOALS = {"ordered": 0.33, "shuffled": 0.33, "cycles": 1.0, "tuples": 1.0, "django": 1.0}
CHILD_OBJECTS = 1_500_000
CHILD_GOAL_BYTES = 500_000
PAUSE_OBJECTS = 2_000_000

Found = Mapping[str, Any]


def run(python: Path, name: str, objects: int, rounds: int) -> Found:
    command = [str(python), str(PROGRAM), name, str(objects), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise click.ClickException(f"{name} on {python} failed:\n{done.stderr}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def ratio(found: Found, unit: str) -> Spread:
    ours, theirs = ([one[unit] for one in found[key]] for key in ("outline", "builtin"))
    return paired_ratio(ours, theirs)


def heaps_table(version: str, heaps: Mapping[str, Found]) -> Table:
    table = Table(title=f"CPython {version}: a full collection", box=box.SIMPLE_HEAD)
    table.add_column("heap")
    columns = ("objects", "built in, ms", "out of line, ms", "ratio", "of CPU time", "MB", "goal")
    for column in columns:
        table.add_column(column, justify="right")
    for name, found in heaps.items():
        builtin, outline = (
            spread_of(one["wall_s"] for one in found[key]).cell(1e-3)
            for key in ("builtin", "outline")
        )
        wall, goal = ratio(found, "wall_s"), RATIO_GOALS[name]
        table.add_row(
            name,
            f"{found['tracked']:,}",
            builtin,
            outline,
            wall.cell(),
            ratio(found, "cpu_s").cell(),
            f"{found['scratch_bytes'] / 1e6:.0f}",
            f"{goal} {'met' if wall.median <= goal else 'MISSED'}",
        )
    return table


@click.command(help=__doc__)
@click.option("--python", "pythons", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", default=9, show_default=True)
@click.option("--heap", "chosen", multiple=True, type=click.Choice(list(HEAPS)))
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All figures.")
def main(
    pythons: tuple[Path, ...],
    rounds: int,
    chosen: tuple[str, ...],
    json_file: Path | None,
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    interpreters: dict[str, Any] = {}
    for python in pythons or (Path(sys.executable),):
        names = chosen or tuple(HEAPS)
        heaps = {
            name: run(python, name, HEAPS[name], rounds)
            for name in track(names, description=str(python), transient=True)
        }
        version = next(iter(heaps.values()))["version"]
        console.print(heaps_table(version, heaps))
        private = run(python, "child", CHILD_OBJECTS, 1)
        verdict = "met" if private["outline"] <= CHILD_GOAL_BYTES else "MISSED"
        console.print(
            f"made private in a child, {private['tracked']:,} objects: built in "
            f"{private['builtin'] / 1e6:.1f} MB, out of line {private['outline'] / 1e6:.2f} MB, "
            f"goal {CHILD_GOAL_BYTES / 1e6} MB: {verdict}"
        )
        pauses = {
            name: run(python, f"pauses-{key}", PAUSE_OBJECTS, 1)
            for name, key in (("built in", "builtin"), ("out of line", "outline"))
        }
        for name, found in pauses.items():
            lengths = spread_of(found["full_s"])
            console.print(
                f"automatic full collections, {name}: {lengths.rounds}, pauses "
                f"{lengths.text(1e-3)} ms; the heap grew in {found['seconds']:.2f} s"
            )
        console.print()
        interpreters[version] = {"heaps": heaps, "child": private, "pauses": pauses}
    if json_file is not None:
        document = {
            "schema": 1,
            "benchmark": "collect",
            "kernel": platform.release(),
            "interpreters": interpreters,
        }
        json_file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
