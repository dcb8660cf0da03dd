"""`pasture lab`: the published experiments, re-run on this machine.

Owns arguments, and where results and reports go.
"""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from pathlib import Path

import click

from pasture.cli._signals import stop_on_signals
from pasture.display.atomic import require_writable, write_atomically
from pasture.display.terminal import error_terminal, output_terminal
from pasture.errors import ServerFailed, UsageError
from pasture.lab import EXPERIMENTS, Experiment, LabResult, Options, Store, progress, run_lab, table
from pasture.lab.document import to_json
from pasture.lab.html import can_draw, render_html, require_html
from pasture.trust import private_files

_FILE = click.Path(path_type=Path)
_RESULTS = Path("pasture-lab")
_BUNDLED_SITE = Path(__file__).resolve().parents[3] / "demo"


@click.group("lab")
def command() -> None:
    """Re-run the published experiments on this machine. See lab/README.md."""


@command.command("list")
def list_command() -> None:
    """List the experiments, their sources, and how long each takes on two cores."""
    table.print_list(EXPERIMENTS.values(), output_terminal())


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
def run_command(
    names: tuple[str, ...],
    everything: bool,
    quick: bool,
    again: bool,
    results: Path,
    json_file: Path | None,
    html_file: Path | None,
    pythons: tuple[str, ...],
    wagtail: bool,
    site: Path | None,
) -> None:
    """Run experiments and report: published figure beside measured one.

    Finished runs are kept in DIR and not run again. Servers listen on 127.0.0.1 only;
    nothing is left running. What this machine cannot measure is named, with the reason.
    """
    chosen = _chosen(names, everything)
    options = Options(quick=quick, pythons=_named(pythons), wagtail=wagtail, site=_site(site))
    wants_html = html_file is not None or can_draw()
    if html_file is not None:
        require_html()
    _make(results)
    json_file, html_file = (
        json_file or results / "report.json",
        html_file or results / "report.html",
    )
    for path in (json_file, html_file):
        require_writable(path)
    with stop_on_signals() as stop, progress.for_console(error_terminal()) as display:
        found = run_lab(
            chosen, options, Store(results), again=again, on_event=display.tell, stop=stop
        )
    write_atomically(json_file, to_json(found))
    if wants_html:
        write_atomically(html_file, render_html(found, datetime.now()))
    table.print_result(found, output_terminal())
    click.echo(f"report: {html_file if wants_html else json_file}", err=True)
    _complain(found)


def _chosen(names: tuple[str, ...], everything: bool) -> list[Experiment]:
    known = ", ".join(EXPERIMENTS)
    if everything == bool(names):
        raise UsageError("name experiments, or say --all", hint=f"there are {known}")
    for name in names:
        if name not in EXPERIMENTS:
            raise UsageError(f"no experiment is called {name!r}", hint=f"there are {known}")
    return [e for name, e in EXPERIMENTS.items() if everything or name in names]


def _named(pythons: tuple[str, ...]) -> dict[str, str]:
    """Paths of interpreters by name; without one, by that of the file."""
    found: dict[str, str] = {}
    for given in pythons:
        name, equals, path = given.partition("=")
        if not equals:
            name, path = re.sub(r"[^\w-]", "-", Path(given).name), given
        if not re.fullmatch(r"[\w-]+", name):
            raise UsageError(
                f"{name!r} cannot name an interpreter", hint="letters, digits, _ and - can"
            )
        if name in found:
            raise UsageError(f"two interpreters are called {name}", hint="say --python NAME=PATH")
        program = shutil.which(path)
        if program is None:
            raise UsageError(f"cannot run {path}", hint="check --python")
        found[name] = str(Path(program).absolute())  # not resolved: an environment is a link
    return found


def _site(named: Path | None) -> Path | None:
    if named is not None and not (named / "manage.py").is_file():
        raise UsageError(f"{named} holds no manage.py", hint="name the folder of the bundled site")
    found = named or _BUNDLED_SITE
    return found.resolve() if (found / "manage.py").is_file() else None


def _make(results: Path) -> None:
    try:
        private_files.make_folder(results)
    except OSError as error:
        raise UsageError(f"cannot keep results: {error}", hint="check --results") from None


def _complain(found: LabResult) -> None:
    """Fail if a run did, for another reason than what this machine lacks."""
    failed = [f"{r.experiment.name} {part}" for r in found.results for part in r.failed]
    if failed:
        raise ServerFailed(
            f"not all runs came to their end: {', '.join(failed)}",
            hint="the table names the reasons; logs are kept beside the results",
        )
