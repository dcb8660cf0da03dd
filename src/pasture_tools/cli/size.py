"""`pasture size`: a number of workers for this container.

Owns arguments, and the figures of a running server.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from pasture import sizing
from pasture.errors import UsageError
from pasture.proc import smaps, tree
from pasture_tools.cli.numbers import PID
from pasture_tools.display.atomic import STANDARD_OUTPUT, write_json
from pasture_tools.display.json_option import json_option
from pasture_tools.doctor.server import server_of
from pasture_tools.proc.sampler import sample_tree, sample_until_whole

_BETWEEN_S = 0.05


@click.command("size")
@click.argument("pid", type=PID, required=False)
@click.option("--trial", type=click.Path(path_type=Path), help="Document of `pasture try --json`.")
@click.option("--policy", default="seal", show_default=True, help="Whose figures of the trial.")
@click.option("--private", metavar="SIZE", help="Private memory of a worker, as in 40M.")
@click.option(
    "--parent", metavar="SIZE", default="0", help="Memory of the parent with all that is shared."
)
@click.option(
    "--peak", default=1.0, show_default=True, help="Times a worker's memory, at its worst."
)
@click.option(
    "--limit", metavar="SIZE|cgroup", default=sizing.CGROUP, show_default=True, help="Of memory."
)
@click.option(
    "--cores", metavar="N|cgroup", default=sizing.CGROUP, show_default=True, help="Processors."
)
@click.option(
    "--per-core", default=sizing.PER_CORE, show_default=True, help="Workers for each processor."
)
@click.option(
    "--spare", default=sizing.SPARE, show_default=True, help="Fraction of the limit left free."
)
@json_option("the number, and what it follows from,")
def command(pid: int | None, json_file: Path | None, **figures: Any) -> None:
    """Say how many workers this container holds.

    Prints the number alone, as in WEB_CONCURRENCY=$(pasture size --trial try.json), and the reason
    on standard error. The limits are those of the container and not of its host. PID is a server, a
    queue or a pool that runs, or one of its workers: its largest worker is taken for each, and the
    limit of memory is that of its control group.
    """
    if pid is not None:
        if figures["trial"] is not None or figures["private"] is not None:
            raise UsageError("PID has the figures of a worker", hint="leave --trial, --private out")
        figures.update(_running(pid))
    found = sizing.size(**figures)
    click.echo(f"{found}", err=True)
    if json_file is not None:
        write_json(json_file, {"schema": 1, **asdict(found)})
    if json_file != STANDARD_OUTPUT:
        click.echo(found.workers)


def _running(pid: int) -> dict[str, Any]:
    """The memory of a worker, and of all other processes with the shared memory.

    Raises a UsageError without a worker, and NoPrivilege.
    """
    tree.require_memory_of(pid)
    server = server_of(pid, "size")
    master = tree.master_of(server, forked_only=False) or server
    sample = sample_until_whole(partial(sample_tree, master), partial(time.sleep, _BETWEEN_S))
    whole = smaps.total_pss_bytes((master, *tree.descendants(master)))
    if sample is None or whole is None:
        raise UsageError(f"no worker of {master} was found", hint="while its workers work")
    private = [worker.memory.private_bytes for worker in sample.workers]
    return {"private": max(private), "parent": max(0, whole - sum(private)), "pid": master}
