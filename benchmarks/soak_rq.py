"""A worker of RQ that works for long: memory of its parent and work horses, stock and sealed.

RQ's parent works between its forks: it talks to Redis, logs, keeps count. Each worker is given the
same jobs, in parts, and its memory is read after each part.
"""

from __future__ import annotations

import signal
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import click
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.engines import queue_worker
from matrix.engines.engine import Variant
from matrix.engines.environments import python_for
from matrix.engines.rows import rq
from matrix.redis_server import redis_server
from pasture.proc.smaps import read_memory

MAX_GROWTH_BYTES = 1_000_000
MB = 1e6


def soak(variant: Variant, jobs: int, parts: int, folder: Path) -> list[tuple[int, int, float]]:
    """After each part: the parent's RSS, its private memory, and a work horse's, bytes."""
    python = python_for(rq.ENGINE.packages)
    found = []
    with redis_server(folder) as url:
        with queue_worker.start(rq.command(variant, python, url), folder) as worker:
            for part in range(parts):
                done = queue_worker.put(python, "rq_jobs", url, str(jobs // parts))
                parent = read_memory(worker.pid)
                if parent is None:
                    raise worker.failure("it has ended")
                horse = mean(job["private"] for job in done)
                found.append((parent.rss_bytes, parent.private_bytes, horse))
                click.echo(f"{variant}, part {part + 1}: {found[-1]}", err=True)
            worker.send_signal(signal.SIGTERM)
            worker.wait(queue_worker.TIMEOUT_S)
    return found


@click.command()
@click.option("--jobs", default=2000, show_default=True)
@click.option("--parts", default=10, show_default=True)
def main(jobs: int, parts: int) -> None:
    """Show that a sealed parent that works does not grow."""
    table = Table(title=f"{jobs} jobs of RQ, MB", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("", "parent's RSS after the first part", "at the end", "work horse's private"):
        table.add_column(heading, justify="right" if heading else "left")
    grown = {}
    for variant in ("theirs", "sealed"):
        with TemporaryDirectory() as folder:
            found = soak(variant, jobs, parts, Path(folder))
        grown[variant] = found[-1][0] - found[0][0]
        cells = (found[0][0], found[-1][0], mean(part[2] for part in found))
        table.add_row(variant, *(f"{value / MB:.1f}" for value in cells))
    Console(width=110).print(table)
    if grown["sealed"] - grown["theirs"] > MAX_GROWTH_BYTES:
        raise click.ClickException(f"the sealed parent has grown: {grown}")


if __name__ == "__main__":
    main()
