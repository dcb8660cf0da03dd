"""A child reads 236 MB of its parent's objects and collects: what becomes private?

Stock, `gc.freeze()`, cinderx's `immortalize_heap()` and the seal side by side, on each
interpreter given. Every measurement is a process of its own (programs/heap.py), and the
variants take turns round by round, so that a drift of the machine meets all of them.
benchmarks/README.md says what is compared and why it is fair.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from matrix.spread import Spread, paired_ratio, spread_of

MB = 1e6
PROGRAM = Path(__file__).parent / "programs" / "heap.py"
VARIANTS = ("stock", "freeze", "cinderx", "seal")
NOT_HERE = 77

PRIVATE_GOAL_BYTES = 1_000_000
SEAL_TIME_GOAL = 1.3
"""Of the seal to cinderx: 30% for the steps that cinderx does not take."""

Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """All rounds of one variant on one interpreter, as the program printed them."""

    name: str
    rounds: tuple[Found, ...]

    def values(self, take: Callable[[Found], float]) -> list[float]:
        return [take(found) for found in self.rounds]

    def spread(self, take: Callable[[Found], float]) -> Spread:
        return spread_of(self.values(take))

    def step(self, name: str) -> Spread | None:
        if any(name not in found["steps_s"] for found in self.rounds):
            return None
        return self.spread(lambda found: found["steps_s"][name])


@dataclass(frozen=True, slots=True)
class Column:
    """One quantity of a measurement; `scale` divides it for the table."""

    key: str
    title: str
    take: Callable[[Found], float]
    scale: float = 1.0


def in_phase(phase: str, quantity: str) -> Callable[[Found], float]:
    return lambda found: float(found["phases"][phase][quantity])


def growth_bytes(found: Found) -> float:
    return in_phase("collect", "private_bytes")(found) - float(found["start_private_bytes"])


def minor_faults(found: Found) -> float:
    return sum(float(phase["minor_faults"]) for phase in found["phases"].values())


COLUMNS = (
    Column("start_private_bytes", "private:\nforked", itemgetter("start_private_bytes"), MB),
    Column("read_private_bytes", "MB\nread", in_phase("read", "private_bytes"), MB),
    Column("collect_private_bytes", "\ncollected", in_phase("collect", "private_bytes"), MB),
    Column("growth_bytes", "\ngrowth", growth_bytes, MB),
    Column("minor_faults", "minor\nfaults", minor_faults),
    Column("seal_s", "ms:\nseal", itemgetter("seal_s"), 1e-3),
    Column("fork_s", "\nfork", itemgetter("fork_s"), 1e-3),
    Column("read_s", "\nread", in_phase("read", "seconds"), 1e-3),
    Column("collect_s", "\ncollect", in_phase("collect", "seconds"), 1e-3),
)
CPU = Column("seal_cpu_s", "", itemgetter("seal_cpu_s"))


def measure(python: Path, variant: str, objects: int) -> Found | None:
    """Run one process. None: this interpreter does not have the variant."""
    done = subprocess.run(
        [python, PROGRAM, variant, str(objects)], capture_output=True, text=True, timeout=300
    )
    if done.returncode == NOT_HERE:
        return None
    if done.returncode != 0:
        raise click.ClickException(f"{variant} on {python} failed:\n{done.stderr}")
    found: Found = json.loads(done.stdout)
    return found


def run_interpreter(python: Path, objects: int, rounds: int) -> list[Variant]:
    found: dict[str, list[Found]] = {name: [] for name in VARIANTS}
    turns = [name for _ in range(rounds) for name in VARIANTS]
    for name in track(turns, description=str(python), transient=True):
        if name in found and (one := measure(python, name, objects)) is not None:
            found[name].append(one)
        else:
            found.pop(name, None)
    return [Variant(name, tuple(kept)) for name, kept in found.items()]


def figures_table(version: str, variants: Sequence[Variant]) -> Table:
    heap = spread_of(v for each in variants for v in each.values(itemgetter("heap_bytes")))
    title = f"CPython {version}: {heap.median / MB:.0f} MB of objects"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("variant")
    for column in COLUMNS:
        table.add_column(column.title, justify="right")
    for variant in variants:
        spreads = [variant.spread(c.take).cell(c.scale) for c in COLUMNS]
        table.add_row(variant.name, *spreads)
    return table


def steps_table(version: str, variants: Sequence[Variant]) -> Table:
    table = Table(title=f"CPython {version}: milliseconds of each step", box=box.SIMPLE_HEAD)
    table.add_column("step")
    sealing = [variant for variant in variants if variant.name in ("cinderx", "seal")]
    for variant in sealing:
        table.add_column(variant.name, justify="right")
    names = dict.fromkeys(name for v in sealing for name in v.rounds[0]["steps_s"])
    for name in names:
        cells = [variant.step(name) for variant in sealing]
        table.add_row(name, *(cell.text(1e-3) if cell else "" for cell in cells))
    totals = [variant.spread(itemgetter("seal_s")).text(1e-3) for variant in sealing]
    table.add_row("all", *totals, style="bold")
    return table


def goals(variants: Sequence[Variant]) -> Iterator[tuple[str, Spread, float, float]]:
    """Name, measured, limit, and the divisor for print."""
    by_name = {variant.name: variant for variant in variants}
    seal = by_name["seal"]
    private = seal.spread(in_phase("collect", "private_bytes"))
    yield "private memory of a sealed child, MB", private, PRIVATE_GOAL_BYTES, MB
    if "cinderx" in by_name:
        for key, name in (("seal_s", "time"), ("seal_cpu_s", "processor time")):
            take = itemgetter(key)
            ratio = paired_ratio(seal.values(take), by_name["cinderx"].values(take))
            yield f"{name} of the seal to that of cinderx", ratio, SEAL_TIME_GOAL, 1.0


def show(console: Console, version: str, variants: Sequence[Variant], immortality: bool) -> None:
    console.print(figures_table(version, variants), steps_table(version, variants))
    if not immortality:
        console.print("No goals here: objects can be immortal from CPython 3.12 on.\n")
        return
    for name, measured, limit, scale in goals(variants):
        verdict = "met" if measured.median <= limit else "MISSED"
        console.print(f"{name}: {measured.text(scale)}, goal {limit / scale:g}: {verdict}")
    console.print()


def as_document(variants: Sequence[Variant]) -> dict[str, Any]:
    return {
        variant.name: {
            **{c.key: variant.spread(c.take).as_dict() for c in (*COLUMNS, CPU)},
            "rounds": variant.rounds,
        }
        for variant in variants
    }


@click.command(help=__doc__)
@click.option("--python", "pythons", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--objects", default=300_000, show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All figures.")
def main(pythons: tuple[Path, ...], objects: int, rounds: int, json_file: Path | None) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    interpreters: dict[str, Any] = {}
    for python in pythons or (Path(sys.executable),):
        variants = run_interpreter(python, objects, rounds)
        version = str(variants[0].rounds[0]["version"])
        interpreters[version] = as_document(variants)
        show(console, version, variants, not version.startswith("3.11."))
    if json_file is not None:
        document = {
            "schema": 1,
            "benchmark": "heap",
            "objects": objects,
            "kernel": platform.release(),
            "interpreters": interpreters,
        }
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
