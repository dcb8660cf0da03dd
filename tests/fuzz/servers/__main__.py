"""Random servers, plain and under pasture: do their workers see and do the same?

    make fuzz-servers ARGS="--minutes 60"

Goes on where it stopped (`var/fuzz-servers/3.X.json`). A server is made from its number alone.
What differs counts if it differs three times in a row. Exits with 1 if anything has.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import click

sys.path += [f"{Path(__file__).parents[1] / 'identity'}", f"{Path(__file__).parents[3]}"]

from application import MODES, server
from lives import outcome
from rounds import Found, found, rounds

RECORDED = re.compile(": (Threads|SigCgt)( of workers)?$")
"""Of a process that records what it comes to hold, in a thread."""
ENDED = re.compile(": (deleted|held|closed|counted|ref)( of workers)?$")
"""A child ends without finalization: docs/seal.md."""
TAKEN = ": ids"
"""Of the numbers that imports take, the parent has one where it has tried to load."""


def documented(name: str, mode: str) -> bool:
    """What differs by request: a record, or the state of a worker that has served."""
    if name.endswith(TAKEN):
        return True
    if mode == "refork" or ENDED.search(name):
        return ": " in name
    return mode == "auto" and RECORDED.search(name) is not None


@click.command(help=__doc__)
@click.option("--servers", default=1_000_000, help="At most so many more than were run before.")
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--first", type=int, help="Number of the first one; nothing is kept.")
@click.option("--mode", type=click.Choice(list(dict.fromkeys(MODES))), help="In place of its own.")
@click.option("--show", is_flag=True, help="Print the application of each server.")
def main(servers: int, minutes: float, first: int | None, mode: str | None, show: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="servers-") as name:
        folder = Path(name)

        def compared(number: int) -> Found:
            one = server(number, folder / "work")
            if show:
                print(one.source[one.source.index("def asgi") :], one.engine, one.mode, one.moves)
            return found(
                lambda mode: outcome(mode, one, folder), [mode or one.mode], documented, quick=True
            )

        is_fine = rounds("fuzz-servers", servers, first, compared, minutes)
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
