"""`pasture learn`: record a profile, and say what its entries bought.

Owns arguments only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pasture.cli import run
from pasture.display.atomic import require_writable, write_json
from pasture.display.json_option import json_option
from pasture.display.terminal import error_terminal, output_terminal
from pasture.errors import UsageError
from pasture.learn.report import print_report, try_entries
from pasture.profile import file


@click.command("learn", context_settings={"allow_interspersed_args": False})
@click.option(
    *("-o", "--output", "output"),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record into this profile what workers build for themselves.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Start with this profile, and say what each entry took.",
)
@json_option("what --report found")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND")
def command(
    output: Path | None, report: Path | None, json_file: Path | None, command: tuple[str, ...]
) -> None:
    """Record what workers build that their parent could have built.

    COMMAND is as for `pasture run`, as in

        pasture learn -o site.profile -- gunicorn mysite.wsgi -w 4

    It runs until it is stopped, and serves as usual. What is in FILE already is kept. Then
    `pasture run --profile FILE` builds all that before the fork.
    """
    if (output is None) == (report is None):
        raise UsageError("nothing to do", hint="give -o FILE and a command, or --report FILE")
    if report is not None:
        profile = file.read(report)
        if json_file is not None:
            require_writable(json_file)
        with error_terminal().status("building what the profile names"):
            built = try_entries(report, command)
        if json_file is not None:
            write_json(json_file, {"schema": 1, "entries": list(map(asdict, built))})
        print_report(profile, built, output_terminal(json_file))
    elif output is not None:
        if not command:
            raise UsageError("no command", hint="pasture learn -o FILE -- gunicorn mysite.wsgi")
        require_writable(output)
        if output.exists():
            file.read(output)
        callback = run.command.callback
        assert callback is not None
        callback(command=command, image=None, learn=output)
