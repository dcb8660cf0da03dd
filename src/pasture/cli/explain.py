"""`pasture explain [PID]`: why each private page of a worker is private.

Owns arguments only.
"""

from __future__ import annotations

from pathlib import Path

import click

from pasture.errors import MissingExtra, UsageError
from pasture.report.atomic import require_writable, write_atomically
from pasture.report.table import output_console

_FILE = click.Path(path_type=Path)


@click.command("explain")
@click.argument("pid", type=click.IntRange(min=1), required=False)
@click.option(
    "--census",
    type=_FILE,
    metavar="FILE",
    help="What the parent wrote at its seal.  [default: the file that its PASTURE_CENSUS names]",
)
@click.option("--json", "json_file", type=_FILE, metavar="FILE", help="Write all figures as JSON.")
def command(pid: int | None, census: Path | None, json_file: Path | None) -> None:
    """Say why each private page of a worker is private.

    PID is a worker of a running pre-fork server, or its master: then the worker with the
    most private memory is taken. Without PID, the one pre-fork server of this user is
    looked for. Nobody is stopped. See docs/explain.md.
    """
    _require_numpy()
    from pasture.observe.explain import explain, find_pair
    from pasture.report.explain_document import to_json
    from pasture.report.explain_table import print_explanation

    if json_file is not None:
        require_writable(json_file)
    parent, worker = find_pair(pid if pid is not None else _only_server())
    found = explain(parent, worker, census)
    if json_file is not None:
        write_atomically(json_file, to_json(found))
    print_explanation(found, output_console())


def _only_server() -> int:
    """The master to look at if none is named.

    Raises:
        UsageError: there is none, or more than one.
    """
    from pasture.observe.tree import find_masters

    masters = find_masters()
    if len(masters) == 1:
        return masters[0]
    found = ", ".join(map(str, masters)) or "none"
    raise UsageError(
        f"give the pid of a worker or its master: pre-fork servers found are {found}",
        hint="pasture explain PID",
    )


def _require_numpy() -> None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "pasture explain needs numpy, which is not installed",
            hint="pip install 'pasture[explain]'",
        ) from None
