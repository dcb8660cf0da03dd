"""Starts servers whose application holds a thread, a lock, a connection, ..., plain and not.

    python -m matrix.holding [HELD...] [--engine NAME] [--at MOMENT] [--mode NAME] [--resume]

Prints what differs from plain. A difference without a list or a refork, which was not asked for,
makes the exit status 1. What was found is kept in var/holding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from matrix.environments import REPOSITORY, build_digest
from matrix.holding.starts import COMMANDS, MODES, PROGRAMS, Holding, Outcome
from matrix.store import Store

ASKED_FOR = ("warm", "refork")
MOMENTS = ("import", "module", "request")
LATE = ("consumer", "ids", "passwords", "base", "connection", "http.client", "flock", "thread", "")
KNOWN = (("ids", "import"),)
"""docs/limits.md: what an import has fetched for its process alone is the same in all workers."""

STORE = Store(REPOSITORY / "var" / "holding", Outcome)


def all_held() -> list[str]:
    """The names in the application's table."""
    return re.findall(r'^    "([^"]*)": ', (PROGRAMS / "holding_app.py").read_text(), re.M)


def outcomes(holding: Holding, modes: Sequence[str], resume: bool) -> dict[str, Outcome]:
    """Those that are kept for this tree, or new ones."""
    names = {mode: f"{holding.engine}, {holding.held}, {holding.at}, {mode}" for mode in modes}
    of = build_digest(("src", "tests/programs"))
    kept = {mode: STORE.kept(name, of) for mode, name in names.items()} if resume else {}
    found = {mode: one for mode, one in kept.items() if one is not None}
    if "plain" in found and len(found) >= len(modes) - 1:  # not all engines refork
        return found
    for mode, outcome in holding.outcomes(modes):
        STORE.keep(names[mode], outcome, of)
        found[mode] = outcome
    return found


@click.command(help=__doc__)
@click.argument("held", nargs=-1)
@click.option("--engine", "engines", multiple=True, type=click.Choice(list(COMMANDS)))
@click.option("--at", "moments", multiple=True, type=click.Choice(MOMENTS))
@click.option("--mode", "modes", multiple=True, type=click.Choice(list(MODES)))
@click.option("--resume", is_flag=True, help="Not what was run before, on the same sources.")
def main(
    held: Sequence[str],
    engines: Sequence[str],
    moments: Sequence[str],
    modes: Sequence[str],
    resume: bool,
) -> None:
    fine = True
    for engine in engines or COMMANDS:
        for at in moments or MOMENTS:
            for name in held or (all_held() if at == "import" else LATE):
                chosen = [mode for mode in MODES if not modes or mode in (*modes, "plain")]
                found = outcomes(Holding(name, at, engine), chosen, resume)
                plain = found.pop("plain")
                for mode, outcome in found.items():
                    new = [word for word in outcome.wrong if word not in plain.wrong]
                    fine &= not new or mode in ASKED_FOR or (name, at) in KNOWN
                    why = f" (plain: {outcome.why_plain[:120]})" if outcome.why_plain else ""
                    words = ", ".join(new) or "as plain"
                    click.echo(f"{engine} | {name or 'nothing'} at {at} | {mode} | {words}{why}")
                if plain.wrong:
                    click.echo(f"{engine} | {name} at {at} | plain | {', '.join(plain.wrong)}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
