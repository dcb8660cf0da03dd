"""One call of `pasture lab`: what is run, and where results and reports go."""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import click

from pasture.errors import ServerFailed, UsageError, guess
from pasture.trust import private_files
from pasture_lab.engine import Experiment, LabResult, Options, Store, run_lab
from pasture_lab.experiments import EXPERIMENTS
from pasture_lab.report import table
from pasture_lab.report.document import to_json
from pasture_lab.report.html import render_html
from pasture_tools.display import progress
from pasture_tools.display.atomic import require_writable, write_atomically
from pasture_tools.display.pages import PAGE
from pasture_tools.display.terminal import error_terminal, output_terminal
from pasture_tools.launch.session import stop_on_signals

_BUNDLED_SITE = Path(__file__).resolve().parents[4] / "demo"


def print_list() -> None:
    """Print the experiments, and how long each takes."""
    table.print_list(EXPERIMENTS.values(), output_terminal())


def run(
    *,
    names: tuple[str, ...],
    everything: bool,
    quick: bool,
    again: bool,
    results: Path,
    pythons: tuple[str, ...],
    wagtail: bool,
    site: Path | None,
) -> None:
    """Run experiments and report; the arguments are the command's.

    Raises:
        UsageError: an argument makes no sense, or results cannot be kept.
        ServerFailed: a run failed for another reason than what this machine lacks.
    """
    chosen = _chosen(names, everything)
    options = Options(quick=quick, pythons=_named(pythons), wagtail=wagtail, site=_site(site))
    wants_html = all(map(find_spec, PAGE))
    _make(results)
    json_file, html_file = results / "report.json", results / "report.html"
    for path in (json_file, html_file):
        require_writable(path)
    with stop_on_signals() as stop, progress.for_console(error_terminal()) as display:
        found = run_lab(
            chosen, options, Store(results), again=again, on_event=display.show, stop=stop
        )
    write_atomically(json_file, to_json(found))
    if wants_html:
        write_atomically(html_file, render_html(found, datetime.now()))
    table.print_result(found, output_terminal())
    click.echo(f"report: {html_file if wants_html else json_file}", err=True)
    _complain(found)


def _chosen(names: tuple[str, ...], everything: bool) -> list[Experiment]:
    known = ", ".join(EXPERIMENTS)
    if everything and names:
        raise UsageError("name experiments, or say --all", hint=f"there are {known}")
    for name in names:
        if name not in EXPERIMENTS:
            hint = f"{guess(name, EXPERIMENTS)}there are {known}"
            raise UsageError(f"no experiment is called {name!r}", hint=hint)
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
