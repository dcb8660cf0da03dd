"""Reforks of ASGI workers: memory of gunicorn's workers of uvicorn.

The FastAPI application of `uvicorn_workers`, without a warm-up list but for one variant. All
workers have served the same requests before their memory is read; under refork those are the
workers of generation 1.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.uvicorn_workers import APP, PASTURE, PATHS, TIMEOUT_S, WARM, Served
from matrix.spread import spread_of
from pasture.scoreboard.reader import read_entries
from pasture_tools.launch.ports import LOOPBACK

REFORK = ("--refork", "50,100000")
VARIANTS: Mapping[str, Sequence[str]] = {
    "stock": (sys.executable, "-m", "gunicorn"),
    "seal": (*PASTURE, "gunicorn"),
    "seal, warm-up": (*PASTURE, *WARM, "gunicorn"),
    "refork": (*PASTURE, *REFORK, "gunicorn"),
}
GENERATION = "all workers are of generation 1"


def arguments(port: int) -> list[str]:
    worker = "uvicorn.workers.UvicornWorker"
    return ["-k", worker, "--bind", f"{LOOPBACK}:{port}", "--no-control-socket", APP]


def measure(variant: str, workers: int, folder: Path) -> tuple[float, int, int]:
    """Private bytes of a worker, PSS of the whole server, and molds in it."""
    reforks = "--refork" in VARIANTS[variant]
    with Served(VARIANTS[variant], workers, folder, arguments) as server:
        while reforks and GENERATION not in server.log:
            for path in PATHS:
                server.get(path)
        parent = psutil.Process(server.pid)
        server.wait_for(  # a replaced worker has its last request to finish, and then a mold ends
            lambda: len(parent.children()) == workers + reforks,
            f"not {workers + reforks} children",
            timeout_s=TIMEOUT_S,
        )
        server.serve_all_paths()
        molds = {one.pid for one in read_entries(server.pid).values() if one.role == "mold"}
        full = {p.pid: p.memory_full_info() for p in parent.children()}
        private = [info.uss for pid, info in full.items() if pid not in molds]
        pss = parent.memory_full_info().pss + sum(info.pss for info in full.values())
        if len(private) != workers:
            raise click.ClickException(f"{len(private)} workers of {workers}")
        server.terminate()
        if server.wait(60) != 0:
            raise server.failure("it did not end well")
    return sum(private) / workers, pss, len(molds)


def compare(workers: int, rounds: int) -> dict[str, list[tuple[float, int, int]]]:
    """Measure all variants and print a table; returns the rounds of each."""
    found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in VARIANTS}
    with TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, runs in found.items():
                runs.append(measure(name, workers, Path(folder)))
                click.echo(f"round {number + 1}: {name}: {runs[-1]}", err=True)
    title = f"CPython {platform.python_version()}: gunicorn, {workers} workers of uvicorn"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("", "private each, MB", "PSS of all, MB", "molds"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, runs in found.items():
        private, pss = spread_of([r[0] for r in runs]), spread_of([r[1] for r in runs])
        table.add_row(name, private.cell(1e6), pss.cell(1e6), str(runs[-1][2]))
    Console(width=100).print(table)
    click.echo(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return found
