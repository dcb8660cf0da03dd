"""Starts servers whose application holds a thread, a lock, a connection, ..., plain and not.

    python -m matrix.holding [--resume] [WORD...]

A word is a server, a moment (import, module, request), a mode, or a thing that is held. Prints what
differs from plain; a difference in what runs by default makes the exit status 1. What was found
is kept in var/holding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence

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


def outcomes(holding: Holding, modes: Sequence[str], resume: bool) -> dict[str, Outcome]:
    """Those that are kept for this tree, or new ones."""
    names = {mode: f"{holding.engine}, {holding.held}, {holding.at}, {mode}" for mode in modes}
    of = build_digest(("src", "tests/programs"))
    kept = {mode: STORE.kept(name, of) for mode, name in names.items()} if resume else {}
    found = {mode: one for mode, one in kept.items() if one is not None}
    if "plain" in found and len(found) >= len(modes) - 1:  # not all servers refork
        return found
    for mode, outcome in holding.outcomes(modes):
        STORE.keep(names[mode], outcome, of)
        found[mode] = outcome
    return found


def report(holding: Holding, found: dict[str, Outcome]) -> bool:
    """Print a line a mode; whether all is as in plain workers, or asked for."""
    fine, plain = True, found.pop("plain")
    for mode, outcome in found.items():
        new = [word for word in outcome.wrong if word not in plain.wrong]
        fine &= not new or mode in ASKED_FOR or (holding.held, holding.at) in KNOWN
        why = f" (plain: {outcome.why_plain[:120]})" if outcome.why_plain else ""
        what = f"{holding.engine} | {holding.held or 'nothing'} at {holding.at} | {mode}"
        click.echo(f"{what} | {', '.join(new) or 'as plain'}{why}")
    return fine


@click.command(help=__doc__)
@click.argument("words", nargs=-1)
@click.option("--resume", is_flag=True, help="Not what was run before, on the same sources.")
def main(words: Sequence[str], resume: bool) -> None:
    table = (PROGRAMS / "holding_app.py").read_text()
    all_held = re.findall(r'^    "([^"]*)": ', table, re.M)

    def chosen(known: Collection[str]) -> list[str]:
        return [one for one in known if one in words] or list(known)

    modes = ["plain", *(mode for mode in chosen(MODES) if mode != "plain")]
    things = [Holding(held, at, engine)
              for engine in chosen(COMMANDS)
              for at in chosen(MOMENTS)
              for held in chosen(all_held)
              if at == "import" or held in LATE]  # fmt: skip
    sys.exit(0 if all([report(one, outcomes(one, modes, resume)) for one in things]) else 1)


if __name__ == "__main__":
    main()
