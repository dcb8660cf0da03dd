"""`pasture size`: a number of workers for this container.

Owns arguments only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pasture import sizing
from pasture_tools.display.atomic import STANDARD_OUTPUT, write_json
from pasture_tools.display.json_option import json_option


@click.command("size")
@click.option("--trial", type=click.Path(path_type=Path), help="Document of `pasture try --json`.")
@click.option("--policy", default="seal", show_default=True, help="Whose figures of the trial.")
@click.option("--private", metavar="SIZE", help="Private memory of a worker, as in 40M.")
@click.option(
    "--parent", metavar="SIZE", default="0", help="Memory of the parent with all that is shared."
)
@click.option(
    "--peak",
    default=1.0,
    show_default=True,
    help="Times a worker's memory, at its worst.",
)
@click.option(
    "--limit", metavar="SIZE|cgroup", default=sizing.CGROUP, show_default=True, help="Of memory."
)
@click.option(
    "--cores", metavar="N|cgroup", default=sizing.CGROUP, show_default=True, help="Processors."
)
@click.option(
    "--per-core", default=sizing.PER_CORE, show_default=True, help="Workers for each processor."
)
@click.option(
    "--spare", default=sizing.SPARE, show_default=True, help="Fraction of the limit left free."
)
@json_option("the number, and what it follows from,")
def command(json_file: Path | None, **figures: Any) -> None:
    """Say how many workers this container holds.

    Prints the number alone, as in WEB_CONCURRENCY=$(pasture size --trial try.json), and the reason
    on standard error. The limits are those of the container and not of its host.
    """
    found = sizing.size(**figures)
    click.echo(f"{found}", err=True)
    if json_file is not None:
        write_json(json_file, {"schema": 1, **asdict(found)})
    if json_file != STANDARD_OUTPUT:
        click.echo(found.workers)
