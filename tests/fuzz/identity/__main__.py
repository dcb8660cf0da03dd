"""Random programs, plain and in each way in which pasture runs them: are they the same programs?

    make fuzz-identity ARGS="--programs 1000"

Goes on where it stopped (`var/fuzz-identity/3.X.json`). A program is made from its number alone.
What differs counts if it differs three times in a row. Exits with 1 if anything has.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from alike import documented
from generator import program
from rounds import Found, found, rounds
from ways import MODES, build_image, fits, outcome


@click.command(help=__doc__)
@click.option("--programs", default=100, show_default=True, help="More than were run before.")
@click.option("--first", type=int, help="Number of the first one; nothing is kept.")
@click.option("--mode", "modes", type=click.Choice(MODES[1:]), multiple=True)
@click.option("--show", is_flag=True, help="Print the source of each program.")
def main(programs: int, first: int | None, modes: Sequence[str], show: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="identity-") as name:
        image, work = Path(name, "app.img"), Path(name, "work")
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": name, "LANG": "C.UTF-8"}
        build_image(image, environ)

        def compared(number: int) -> Found:
            one = program(number, work)
            if show:
                print(one.source[one.source.index("SUBJECT_ZERO =") :], one, sep="\n")
            return found(
                lambda mode: outcome(mode, one, environ, image, work),
                [mode for mode in modes or MODES[1:] if fits(mode, one)],
                lambda name, mode: documented(name, mode.startswith("image")),
            )

        is_fine = rounds("fuzz-identity", programs, first, compared, minutes=float("inf"))
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
