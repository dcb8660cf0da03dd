"""A start with a profile, and the table of its entries: memory and time that no worker spends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from pasture.display.terminal import Terminal
from pasture.launch.session import Group
from pasture.profile.build import Built
from pasture.profile.file import Profile
from pasture.serving.profiled import REPORT
from pasture.trust.private_files import temporary_folder

START_S = 600.0
_A_FORK = ("python", "-c", "import os; os.waitpid(os.fork() or os._exit(0), 0)")
"""Command that seals as soon as it can: where none is given, requests are left out."""


def try_entries(path: Path, command: Sequence[str]) -> tuple[Built, ...]:
    """Start a command under `pasture run` with a profile, to its first fork, and end it.

    Returns:
        What each entry came to, in the order in which they were built.

    Raises:
        ServerFailed: it ended before it forked, or forked none in time.
    """
    own = [sys.executable, "-m", "pasture", "run", "--probe", "off", "--profile", str(path)]
    with temporary_folder("pasture-learn-") as folder:
        report = folder / "report.json"
        environ = {**os.environ, REPORT: str(report)}
        with Group([*own, *(command or _A_FORK)], log=folder / "log", env=environ) as server:
            server.wait_for(report.exists, "no worker was forked", timeout_s=START_S)
            return tuple(Built(**one) for one in json.loads(report.read_text("utf-8")))


def print_report(profile: Profile, built: Sequence[Built], terminal: Terminal) -> None:
    """Entries by the memory that they took, and those that were not built, with the reasons."""
    table = Table(box=None, pad_edge=False)
    for title in ("MB", "ms"):
        table.add_column(title, justify="right")
    table.add_column("entry")
    good = sorted((one for one in built if not one.problem), key=lambda one: -one.own_bytes)
    for one in good:
        table.add_row(f"{one.own_bytes / 1e6:.1f}", f"{one.seconds * 1e3:.0f}", one.entry)
    total_mb = sum(one.own_bytes for one in good) / 1e6
    table.add_row(f"{total_mb:.1f}", f"{sum(one.seconds for one in good) * 1e3:.0f}", "all of them")
    terminal.print(table)
    terminal.print("\nEach worker would have taken these for itself, as far as it needs them.")
    lines = [f"{one.entry}: {one.problem}" for one in built if one.problem]
    _print_list(terminal, "Not built:", [*profile.problems, *lines])
    seen = {one.entry.partition(" ")[2] for one in built}
    left = [f"request {value}" for value in profile.of("request") if value not in seen]
    _print_list(terminal, "Not tried, give the server's command after --:", left)
    opened = [f"connection {value}" for value in profile.of("connection")]
    _print_list(terminal, "Opened by each worker, and never made beforehand:", opened)


def _print_list(terminal: Terminal, title: str, lines: Sequence[str]) -> None:
    if lines:
        terminal.print(f"\n{title}\n")
        for line in lines:
            terminal.print(f"  {line}")
