"""Programs that start out of an image, next to `python` and a fork server that seals nothing.

Times from start to end; the memory of sessions that have worked and stay; kernels until they
answer. `benchmarks.image` runs them.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from pasture.proc import smaps

STARTS = {"pass": (), "import numpy, pandas": ("--preload", "numpy,pandas")}
"""Programs, and what each one's image is built with."""

SESSION = Path(__file__).parent / "programs" / "image_session.py"
REHEARSAL = Path(__file__).parent / "programs" / "image_rehearsal.py"
FORK_SERVER = Path(__file__).parent / "programs" / "image_fork_server.py"
KERNELS = Path(__file__).parent / "programs" / "image_kernels.py"
SESSION_MODULES = "numpy,pandas,sklearn.linear_model"
KERNEL = Path(__file__).parents[1] / "examples" / "helpers" / "rehearse_kernel.py"

Environ = Mapping[str, str]


# -- times


def seconds(program: Path, source: str, environ: Environ) -> float:
    """From the start of a program to its end."""
    began = time.perf_counter()
    subprocess.run([program, "-c", source], env=environ, check=True)
    return time.perf_counter() - began


def show_times(python: Path, stub: Path, source: str, environ: Environ, rounds: int) -> None:
    """Of a program, out of an image that has been built for it."""
    pairs = [
        (seconds(python, source, environ), seconds(stub, source, environ)) for _ in range(rounds)
    ]
    by_python, by_image = map(statistics.median, zip(*pairs, strict=True))
    ratios = sorted(image / python for python, image in pairs)
    click.echo(
        f"{source:22} python {by_python * 1e3:7.1f} ms  image {by_image * 1e3:6.1f} ms  "
        f"ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f}-{ratios[-1]:.4f})"
    )


# -- memory


@contextmanager
def sessions(start: Callable[[], subprocess.Popen[bytes]], count: int) -> Iterator[list[int]]:
    """Sessions that have done their work and stay until the end of the block; their pids."""
    processes = [start() for _ in range(count)]
    try:
        yield [answer(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def answer(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise click.ClickException("a session ended before it was measured")
    return int(line)


def pss_of_sessions(program: Path, environ: Environ, count: int) -> int:
    """Bytes. Pages of an image that no session has mapped are the page cache's, and not counted."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([program, SESSION], env=environ, stdout=subprocess.PIPE)

    with sessions(start, count) as pids:
        return smaps.total_pss_bytes(pids) or 0


def pss_of_fork_server(python: Path, environ: Environ, count: int) -> int:
    """Bytes, of the server and its sessions."""
    process = subprocess.Popen(
        [python, FORK_SERVER, f"{count}"],
        env=environ,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        pids = [int(process.stdout.readline()) for _ in range(count)]
        return smaps.total_pss_bytes([*pids, process.pid]) or 0
    finally:
        process.communicate()


def show_memory(totals: Mapping[str, int], count: int) -> None:
    """Each total, and the part of it that sessions out of an image take."""
    for name, total in totals.items():
        ratios = "  ".join(f"{n} {totals[n] / total:.3f}" for n in ("image", "rehearsed"))
        click.echo(
            f"{name:12} {count} sessions {total / 1e6:8.0f} MB  {total / count / 1e6:6.1f} MB each"
            f"  of it {ratios}"
        )


# -- kernels


def kernels(python: Path, program: Path, environ: Environ, count: int) -> tuple[float, ...]:
    """Seconds until kernels that were started at once have answered; of processors; PSS, MB."""
    command = [str(python), str(KERNELS), str(program), f"{count}"]
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    seconds, used, pss_bytes = map(float, done.stdout.split())
    return seconds, used, pss_bytes / 1e6


def show_kernels(python: Path, stub: Path, environ: Environ, count: int) -> None:
    """Out of an image of a kernel."""
    kernels(python, python, environ, 1)  # makes the history's database
    pairs = zip(*(kernels(python, one, environ, count) for one in (stub, python)), strict=True)
    units = ("ready", "s"), ("of processors", "s"), ("PSS", "MB")
    for (what, unit), (by_image, by_python) in zip(units, pairs, strict=True):
        click.echo(
            f"{count} kernels {what}: python {by_python:.1f} {unit}, image {by_image:.1f} {unit}, "
            f"ratio {by_image / by_python:.3f}"
        )
