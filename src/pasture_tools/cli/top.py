"""`pasture top [PID]`: a process tree, live.

Owns arguments only.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from pasture.errors import MissingExtra, UsageError
from pasture.proc import tree
from pasture_tools.cli.numbers import PID, Number
from pasture_tools.display.atomic import STANDARD_OUTPUT, require_writable, write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.display.terminal import error_terminal
from pasture_tools.doctor.server import server_of
from pasture_tools.proc.images import image_of, mapping_of
from pasture_tools.top import table
from pasture_tools.top.watch import ImageWatch, Watch


@click.command("top")
@click.argument("pid", type=PID, required=False)
@click.option(
    "--once",
    is_flag=True,
    help="Print one table as plain text after two readings; the default without a terminal.",
)
@click.option(
    "--interval",
    "interval_s",
    type=Number(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two readings.",
)
@click.option(
    "--image",
    metavar="FILE|PID",
    help="All programs out of this image, or out of the image of this program, as one group.",
)
@json_option("the figures of --once")
def command(
    pid: int | None, once: bool, interval_s: float, image: str | None, json_file: Path | None
) -> None:
    """Watch a server: shared and private memory, growth, faults.

    PID is the master, one of its workers, or a shell or supervisor above it. Without PID, the one
    pre-fork server of this user is looked for.
    """
    if image is not None and pid is not None:
        raise UsageError("--image shows all programs out of an image", hint="leave PID out")
    watch: ImageWatch | Watch
    if image is None:
        pid = tree.only_master("top") if pid is None else pid
        tree.require_memory_of(pid)
        watch = Watch(server_of(pid, "top"))
    elif image.isdecimal():
        tree.require_memory_of(int(image))
        watch = ImageWatch(image_of(int(image)))
    else:
        watch = ImageWatch(mapping_of(Path(image)))
    if once or json_file is not None or not sys.stdout.isatty():
        if json_file is not None:
            require_writable(json_file)
        watch.look()
        with error_terminal().status(f"reading again in {interval_s:g} s"):
            time.sleep(interval_s)
        rows, limits = watch.look(), watch.limits()
        if json_file is not None:
            write_json(json_file, table.as_document(watch.master_pid, rows, limits))
        if json_file != STANDARD_OUTPUT:
            click.echo(table.plain(rows, limits), nl=False)
        return
    try:
        from pasture_tools.top.screen import TopApp
    except ImportError as error:
        raise MissingExtra(
            f"the live view needs {error.name}, which is not installed",
            hint="pip install 'pasture[top]', or add --once for plain text",
        ) from None
    app = TopApp(
        watch.master_pid, watch.look, interval_s, limits=watch.limits, title=watch.title,
        columns=table.columns(watch.look()),
    )  # fmt: skip
    app.run()
    if app.error is not None:
        raise app.error
