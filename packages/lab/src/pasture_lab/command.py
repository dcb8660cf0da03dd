"""`pasture lab`: its arguments. What they call is imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path)
_RESULTS = Path("pasture-lab")


@click.command("lab")
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
    "--python",
    "pythons",
    metavar="[NAME=]PATH",
    multiple=True,
    help="webserver: another interpreter, such as a PyPy, to run without pasture next to ours. "
    "Repeat for more; the first is the one to compare with.",
)
@click.option("--wagtail", is_flag=True, help="site: measure a Wagtail site too, fetched with uv.")
@click.option(
    "--site",
    type=_FILE,
    metavar="DIR",
    help="site: the folder of the bundled site.  [default: demo/ of the repository]",
)
def command(names: tuple[str, ...], everything: bool, **options: Any) -> None:
    """Re-run the published experiments on this machine.

    Without a name, lists the experiments, their sources, and how long each takes on two cores.
    Otherwise runs them, and reports published and measured figures in DIR. Finished runs are kept
    there and not run again. Servers listen on 127.0.0.1 only; nothing is left running. What this
    machine cannot measure is named, with the reason.
    """
    from pasture_lab import lab

    if names or everything:
        lab.run(names=names, everything=everything, **options)
    else:
        lab.print_list()
