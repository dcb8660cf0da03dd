"""`make bench-pytest-rivals`: trivial tests by pytest alone, and by each way to have workers.

Each round runs all, one after the other, in an order that changes: first for processor time of all
processes, then again for the peak of their PSS, which is sampled. Other plug-ins come from PyPI.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.environments import REPOSITORY, uv
from matrix.spread import paired_ratio, spread_of

FOLDER = REPOSITORY / "build" / "pytest-rivals"
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "xdist": ("-p", "xdist", "-n", "{}"),
    "pasture": ("-p", "xdist", "-p", "pytest_pasture.plugin", "--pasture", "-n", "{}"),
    "zygote": ("-p", "pytest_zygote.plugin", "--workers", "{}"),
    "parallex": (
        *("-p", "pytest_parallex.plugin"),
        *("--parallel", "fork", "--parallel-workers", "{}"),
    ),
}
RIVALS = {"zygote": "pytest-zygote==0.1.1", "parallex": "pytest-parallex==0.2.5"}
SLOWER = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables of a machine. With the first, each run would rewrite the assertions of all tests again;
with the other one, each piece of output would be written by itself."""

TESTS_A_FILE = 100
SAMPLE_S = 0.1


def write_tests(folder: Path, number: int) -> None:
    """Files of trivial tests."""
    text = "\n".join(f"def test_{n}(): assert {n} + 1 == {n + 1}\n" for n in range(TESTS_A_FILE))
    for file in range(number // TESTS_A_FILE):
        (folder / f"test_{file:04}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")


def run(variant: str, folder: Path, workers: int, *, samples: bool) -> float:
    """Seconds of processor time; of a run that is sampled, the peak of the PSS, bytes."""
    words = [word.format(workers) for word in VARIANTS[variant]]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    known = {name: value for name, value in os.environ.items() if name not in SLOWER}
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(FOLDER / variant)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**known, **own}, stdout=log, stderr=log
        )
        peak = 0
        while samples and process.poll() is None:
            peak = max(peak, pss_below(process.pid))
            time.sleep(SAMPLE_S)
        if process.wait() != 0:
            raise click.ClickException(f"{variant}: {(folder / 'log').read_text()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return peak if samples else used


def pss_below(pid: int) -> int:
    """Of a process and all that descend from it, bytes."""
    total = 0
    with suppress(psutil.Error):
        top = psutil.Process(pid)
        for one in (top, *top.children(recursive=True)):
            with suppress(psutil.Error):
                total += one.memory_full_info().pss
    return total


@click.command(help=__doc__)
@click.option("--tests", default=3000, show_default=True)
@click.option("--workers", default=4, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--without", multiple=True, type=click.Choice([*VARIANTS]))
def main(tests: int, workers: int, rounds: int, without: tuple[str, ...]) -> None:
    names = [name for name in VARIANTS if name not in without or name == "zygote"]
    for name in RIVALS.keys() & {*names}:
        target = ("--target", FOLDER / name, "--python", sys.executable)
        uv("pip", "install", "--quiet", "--no-deps", *target, RIVALS[name])
    figures: dict[str, dict[bool, list[float]]] = {name: {False: [], True: []} for name in names}
    with TemporaryDirectory(prefix="pasture-bench-") as folder:
        write_tests(Path(folder), tests)
        run("plain", Path(folder), workers, samples=False)  # compiles
        for turn in range(rounds):
            for name in names[:: -1 if turn % 2 else 1]:
                for samples in (False, True):
                    one = run(name, Path(folder), workers, samples=samples)
                    figures[name][samples].append(one)
    table = Table(
        box=box.SIMPLE, title=f"{tests} tests, {workers} workers; ratios to pytest-zygote"
    )
    for column in ("", "processor, s", "ratio", "peak PSS, MB", "ratio"):
        table.add_column(column)
    for name, found in figures.items():
        cells = []
        for samples, scale in ((False, 1.0), (True, 1e6)):
            ratio = paired_ratio(found[samples], figures["zygote"][samples])
            cells += [spread_of(found[samples]).text(scale), ratio.text()]
        table.add_row(name, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
