"""`pasture profile`: work on files of `pasture learn`.

Owns arguments only.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import click

from pasture.display.atomic import write_atomically
from pasture.display.sections import OrderedGroup
from pasture.profile import file

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("profile", cls=OrderedGroup)
def command() -> None:
    """Work on profiles, the files of `pasture learn`."""


@command.command("merge")
@click.argument("profiles", nargs=-1, type=_FILE, required=True, metavar="FILE...")
@click.option(
    *("-o", "--output", "output"), type=_FILE, required=True, metavar="FILE", help="The result."
)
def merge(profiles: tuple[Path, ...], output: Path) -> None:
    """Make one profile of several.

    Modules that only a later file has come where they are there. Lines that are no entries are
    reported and left out.
    """
    merged = reduce(add, map(file.read, profiles))
    for problem in merged.problems:
        click.echo(problem, err=True)
    write_atomically(output, merged.text)
