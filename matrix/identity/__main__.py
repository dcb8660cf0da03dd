"""Compares who workers are, and what they draw, plain and under pasture: `make test-identity`.

    python -m matrix.identity [ENGINE ...] [--mode NAME] [--resume] [--page]

Each engine starts the zoo (`programs/zoo.py`) in each of its modes, and two workers write what
they have. Relations between workers that differ from those of plain ones, and that expected.toml
does not list with a reason, make the exit status 1. The outcome of each start is kept in
var/identity, from which docs/results/identities.md is written once all engines were started.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from matrix.environments import REPOSITORY, build_digest
from matrix.identity.engines import ENGINES, PROGRAMS, Engine
from matrix.identity.page import write_page
from matrix.identity.relations import (
    Relations,
    accepted,
    differences,
    reason_for,
    relations_of,
)
from matrix.store import Store
from pasture.trust.records import decoded

STORE: Store[Relations] = Store(REPOSITORY / "var" / "identity", decode=partial(decoded, Relations))


def _state(engine: Engine, mode: str) -> str:
    """What a result depends on: the zoo, and pasture unless it is plain."""
    zoo = "".join(path.read_text() for path in sorted(PROGRAMS.glob("*.py")))
    return zoo + ("" if mode == "plain" else build_digest())


def kept(engine: Engine, mode: str) -> Relations | None:
    """What is kept of a start, whatever it was made with; None if there is nothing."""
    return STORE.kept(f"{engine.name}/{mode}")


def obtain(engine: Engine, mode: str, resume: bool) -> Relations:
    """The relations of a start that is kept and still holds, or of a new one."""
    name, state = f"{engine.name}/{mode}", _state(engine, mode)
    if resume and (found := STORE.kept(name, state)) is not None:
        return found
    click.echo(f"  {engine.name}: {mode} ...", err=True)
    with tempfile.TemporaryDirectory() as folder:
        found = relations_of(engine.run(mode, Path(folder) / "start"))
    STORE.keep(name, found, state)
    return found


def examine(engine: Engine, modes: Sequence[str], resume: bool) -> bool:
    """Whether all that differs in one engine has a reason."""
    rows, is_fine = accepted(), True
    plain = obtain(engine, "plain", resume)
    for mode in modes:
        found = obtain(engine, mode, resume)
        unknown = [
            one
            for one in differences(engine.name, mode, plain, found)
            if reason_for(one, rows) is None
        ]
        for one in unknown:
            click.echo(str(one))
        is_fine = is_fine and not unknown
    return is_fine


@click.command()
@click.argument("names", nargs=-1)
@click.option("--mode", "only", help="This mode alone.")
@click.option("--resume", is_flag=True, help="Take up again what is kept of this tree.")
@click.option("--page", is_flag=True, help="Write the page of what is kept, and run nothing.")
def main(names: Sequence[str], only: str | None, resume: bool, page: bool) -> None:
    """Compare workers of ENGINE, or of all."""
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        raise click.UsageError(f"no such engine: {unknown[0]}; there are {', '.join(ENGINES)}")
    is_fine = True
    for name in () if page else names or ENGINES:
        engine = ENGINES[name]
        modes = [mode for mode in engine.modes if mode != "plain" and only in (None, mode)]
        is_fine = examine(engine, modes, resume) and is_fine
    found = {name: {mode: kept(row, mode) for mode in row.modes} for name, row in ENGINES.items()}
    if page or all(any(starts.values()) for starts in found.values()):
        write_page(found)
    else:
        click.echo("the page stays as it is: some engines were not started here", err=True)
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
