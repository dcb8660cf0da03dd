"""Faults under load of each engine, without pasture and sealed.

Each engine has a file of results in `var/soak-engines/`; a variant that is there with as many
minutes is not run again. Ends with the table of all that is kept, and a failure if a sealed engine
lost what it does not lose by itself.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import time

import click
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.faults.engines import KINDS, Kind
from benchmarks.faults.life import plan, running
from benchmarks.faults.tally import COLUMNS, FOLDER, Tally, complaints, row_of, store
from matrix.engines.engine import VARIANTS, Variant
from pasture.errors import PastureError


def soak(kind: Kind, variant: Variant, tally: Tally) -> None:
    """Do harm to an engine: in both variants the same faults in the same order."""
    chance, order = random.Random(tally.seed), plan(kind, random.Random(tally.seed))
    count = round(tally.minutes * 60 / tally.every_s)
    with running(kind, variant, FOLDER / kind.name, chance, tally) as run:
        for fault in itertools.islice(order, count):
            began = time.monotonic()
            run.do(fault)
            click.echo(f"{time.strftime('%H:%M:%S')} {kind.name} {variant}: {fault}", err=True)
            time.sleep(max(0.0, began + tally.every_s - time.monotonic()))
        run.finish()


def show() -> list[str]:
    """Print the table of what is kept; returns what only sealed engines did."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, title="without pasture / sealed")
    found = []
    for kind in KINDS:
        kept = store().kept(kind.name) or {}
        if all(variant in kept for variant in VARIANTS):
            table.add_row(*row_of(kind.name, kept["theirs"], kept["sealed"]))
            found += [f"{kind.name}: {line}" for line in complaints(kept["theirs"], kept["sealed"])]
    Console(width=120).print(table)
    return found


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[ENGINE ...]")
@click.option("--minutes", default=10.0, show_default=True, help="Of each variant.")
@click.option("--every", default=10.0, show_default=True, help="Seconds from fault to fault.")
@click.option("--seed", default=28, show_default=True, help="Of what is done when.")
@click.option("--again", is_flag=True, help="Forget what is kept of these engines first.")
@click.option("--table", "only_table", is_flag=True, help="Show what is kept, run nothing.")
def main(
    names: tuple[str, ...], minutes: float, every: float, seed: int, again: bool, only_table: bool
) -> None:
    # What was started is ended and unmounted on a TERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    unknown = set(names).difference(kind.name for kind in KINDS)
    if unknown:
        have = ", ".join(kind.name for kind in KINDS)
        raise click.BadParameter(f"no engine {', '.join(sorted(unknown))}; there are {have}")
    failed = []
    for kind in () if only_table else KINDS:
        if names and kind.name not in names:
            continue
        kept = {} if again else store().kept(kind.name) or {}
        for variant in VARIANTS:
            if variant in kept and kept[variant].minutes >= minutes:
                continue
            tally = Tally(minutes, every, seed)
            try:
                soak(kind, variant, tally)
            except PastureError as error:
                click.echo(f"{kind.name}, {variant}: {error.message}\n{error.hint}", err=True)
                failed.append(f"{kind.name}, {variant}")
                continue
            kept[variant] = tally
            store().keep(kind.name, kept)
    lines = show()
    for line in lines:
        click.echo(line)
    if failed:
        raise click.ClickException(f"not run: {'; '.join(failed)}")
    if lines:
        raise click.ClickException("sealed engines did what they do not do by themselves")


if __name__ == "__main__":
    main()
