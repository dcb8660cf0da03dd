"""`pasture explain [PID]`: why each private page of a worker is private.

Owns arguments only.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from pasture.proc.tree import only_master, server_of
from pasture_tools.cli.numbers import PID, Number
from pasture_tools.display.atomic import require_writable, write_atomically, write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.display.pages import PAGE, require_packages
from pasture_tools.display.terminal import error_terminal, output_terminal

_FILE = click.Path(path_type=Path)


@click.command("explain")
@click.argument("pid", type=PID, required=False)
@click.option(
    "--snapshot",
    type=_FILE,
    metavar="FILE",
    help="Heap snapshot that the parent wrote at its seal.  "
    "[default: the file that its PASTURE_SNAPSHOT names]",
)
@click.option(
    "--record",
    "record_s",
    type=Number(min=0),
    default=0.0,
    metavar="SECONDS",
    help="First sample page faults for this long, and name the functions that wrote.",
)
@json_option("all figures")
@click.option("--html", "html_file", type=_FILE, metavar="FILE", help="Write a page with a map.")
def command(
    pid: int | None,
    snapshot: Path | None,
    record_s: float,
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    """Say why each private page of a worker is private.

    PID is a worker of a running pre-fork server, or its master, or a shell or supervisor above it:
    then the worker with the most private memory is taken. Without PID, the one pre-fork server of
    this user is looked for. No process is stopped.
    """
    for path in filter(None, (json_file, html_file)):
        require_writable(path)
    require_packages("pasture explain", "numpy", *(PAGE if html_file else ()), extra="explain")
    from pasture_tools.explain.document import as_document
    from pasture_tools.explain.explain import explain
    from pasture_tools.explain.html import render_html
    from pasture_tools.explain.sources import find_pair
    from pasture_tools.explain.table import print_explanation

    pair = find_pair(only_master("explain") if pid is None else server_of(pid, "explain"))
    words = f"recording for {record_s:g} s" if record_s else "comparing memory"
    with error_terminal().status(words):
        found = explain(*pair, snapshot, record_s=record_s)
    if json_file is not None:
        write_json(json_file, as_document(found))
    if html_file is not None:
        write_atomically(html_file, render_html(found, datetime.now()))
    print_explanation(found, output_terminal(json_file))
