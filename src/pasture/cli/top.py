"""`pasture top [PID]`: a process tree, live.

Owns arguments only.
"""

from __future__ import annotations

import sys
import time

import click

from pasture.errors import MissingExtra
from pasture.proc import tree
from pasture.top import table
from pasture.top.watch import Watch


@click.command("top")
@click.argument("pid", type=click.IntRange(min=1), required=False)
@click.option(
    "--once",
    is_flag=True,
    help="Print one table as plain text, after two readings: always so where no terminal shows it.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two readings.",
)
def command(pid: int | None, once: bool, interval_s: float) -> None:
    """Watch a pre-fork server: PSS, private and shared memory, growth, page faults.

    PID is the master, or one of its workers. Without PID, the one pre-fork server of this
    user is looked for. See docs/diagnose.md.
    """
    chosen = pid if pid is not None else tree.only_master("top")
    tree.require_memory_of(chosen)
    master = tree.master_of(chosen, forked_only=False) or chosen
    watch = Watch(master)
    if once or not sys.stdout.isatty():
        watch.look()
        time.sleep(interval_s)
        click.echo(table.plain(watch.look(), watch.limits()), nl=False)
        return
    try:
        from pasture.top.screen import TopApp
    except ImportError as error:
        raise MissingExtra(
            f"the live view needs {error.name}, which is not installed",
            hint="pip install 'pasture[top]', or add --once for plain text",
        ) from None
    watch.look()
    app = TopApp(master, watch.look, interval_s, limits=watch.limits)
    app.run()
    if app.error is not None:
        raise app.error
