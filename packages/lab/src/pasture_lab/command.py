"""`pasture lab`: its arguments. What they call is imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pasture_tools.display.json_option import json_option
from pasture_tools.display.sections import OrderedGroup

_FILE = click.Path(path_type=Path)
_RESULTS = Path("pasture-lab")


@click.group("lab", cls=OrderedGroup)
def command() -> None:
    """Re-run the published experiments on this machine."""


@command.command("list")
@json_option("them")
def list_command(json_file: Path | None) -> None:
    """List the experiments, their sources, and how long each takes on two cores."""
    from pasture_lab import lab

    lab.print_list(json_file)


@command.command("run")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Every experiment.")
@click.option("--quick", is_flag=True, help="Less of everything: minutes, not an hour.")
@click.option("--again", is_flag=True, help="Run finished runs again, too.")
@click.option(
    "--results",
    type=_FILE,
    default=_RESULTS,
    show_default=True,
    metavar="DIR",
    help="Where finished runs, logs and the report are kept.",
)
@click.option(
    "--json", "json_file", type=_FILE, metavar="FILE", help="[default: report.json in DIR]"
)
@click.option(
    "--html", "html_file", type=_FILE, metavar="FILE", help="[default: report.html in DIR]"
)
@click.option(
    "--python",
    "pythons",
    metavar="[NAME=]PATH",
    multiple=True,
    help="Of webserver: another interpreter, a PyPy say, to run without pasture beside ours. "
    "May be given several times; the first is what the others are compared with.",
)
@click.option("--wagtail", is_flag=True, help="Of site: a Wagtail site too, fetched with uv.")
@click.option(
    "--site",
    type=_FILE,
    metavar="DIR",
    help="Of site: the bundled site.  [default: demo/ of the repository]",
)
def run_command(**options: Any) -> None:
    """Run experiments, and report published and measured figures.

    Finished runs are kept in DIR and not run again. Servers listen on 127.0.0.1 only;
    nothing is left running. What this machine cannot measure is named, with the reason.
    """
    from pasture_lab import lab

    lab.run(**options)
