"""`make bench-allocators`: a sealed child's private memory under each allocator behind malloc.

Without and with the holes of the parent's heap plugged. jemalloc, tcmalloc and mimalloc are
preloaded, as containers do it; `tools/services` finds them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
KIB, MB = 1024, 1e6


def library(allocator: str) -> str:
    """What to preload; nothing for the C library's own.

    Raises:
        click.ClickException: it cannot be had here.
    """
    if allocator == "glibc":
        return ""
    command = [str(ROOT / "tools" / "services"), allocator]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise click.ClickException(done.stderr.strip())
    return done.stdout.strip()


def private_mb(preload: str, *leave_out: str) -> float:
    """Of the child, in one run."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.programs.allocators", *leave_out],
        env=os.environ | {"LD_PRELOAD": preload},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[0]) * KIB / MB


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
def main(rounds: int) -> None:
    click.echo("allocator   open  plugged   (private MB of the child, medians)")
    for allocator in ALLOCATORS:
        preload = library(allocator)
        ways = ((), ("plug-malloc",))
        plugged, holes = (
            statistics.median(private_mb(preload, *way) for _ in range(rounds)) for way in ways
        )
        click.echo(f"{allocator:<10} {holes:5.1f}    {plugged:5.1f}")


if __name__ == "__main__":
    main()
