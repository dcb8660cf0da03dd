"""`pasture explain [PID]`: why each private page of a worker is private.

Owns arguments only.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pasture.cli.numbers import PID, Number
from pasture.display.atomic import require_writable, write_atomically, write_json
from pasture.display.json_option import json_option
from pasture.display.pages import PAGE, require_packages
from pasture.display.terminal import error_terminal, output_terminal
from pasture.errors import UsageError
from pasture.explain.pair import find_pair
from pasture.proc.tree import only_master, server_of
from pasture.trust.foreign_files import read_foreign

if TYPE_CHECKING:
    from pasture.explain.explanation import Explanation

_MAX_BYTES = 64 << 20
_DAMAGED = (
    *(ValueError, ArithmeticError, LookupError),
    *(TypeError, AttributeError, RecursionError),
)
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
@click.option(
    "--open",
    "recorded",
    type=_FILE,
    metavar="FILE",
    help="Show a file that --json wrote.",
)
def command(
    pid: int | None,
    snapshot: Path | None,
    record_s: float,
    json_file: Path | None,
    html_file: Path | None,
    recorded: Path | None,
) -> None:
    """Say why each private page of a worker is private.

    PID is a worker of a running pre-fork server, or its master, or a shell or supervisor above it:
    then the worker with the most private memory is taken. Without PID, the one pre-fork server of
    this user is looked for. No process is stopped.
    """
    for path in filter(None, (json_file, html_file)):
        require_writable(path)
    pair = None
    if recorded is None:
        pair = find_pair(only_master("explain") if pid is None else server_of(pid, "explain"))
    elif pid is not None or record_s:
        raise UsageError("--open shows a file", hint="leave PID and --record away")
    require_packages("pasture explain", "numpy", *(PAGE if html_file else ()), extra="explain")
    from pasture.explain.document import as_document
    from pasture.explain.html import render_html
    from pasture.explain.table import print_explanation

    if recorded is not None:
        found = _read(recorded)
    else:
        assert pair is not None
        found = _explain(*pair, snapshot, record_s)
    if json_file is not None:
        write_json(json_file, as_document(found))
    if html_file is not None:
        write_atomically(html_file, render_html(found, datetime.now()))
    print_explanation(found, output_terminal(json_file))


def _explain(
    parent: int | None, worker: int | None, snapshot: Path | None, record_s: float
) -> Explanation:
    from pasture.explain.explain import explain

    words = f"recording for {record_s:g} s" if record_s else "comparing memory"
    with error_terminal().status(words):
        return explain(parent, worker, snapshot, record_s=record_s)


def _read(path: Path) -> Explanation:
    from pasture.explain.document import from_json

    try:
        return from_json(read_foreign(path, most_bytes=_MAX_BYTES, owners=None).decode())
    except _DAMAGED as error:
        raise UsageError(
            f"{path} cannot be shown: {error}",
            hint="give a file that `pasture explain --json` wrote",
        ) from None
