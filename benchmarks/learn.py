"""What `--auto` saves from its second start on, and what recording costs.

`jobs`: a pool and a worker of Celery whose functions import pandas inside. `spark`: a user-defined
function of PySpark's that does so; it needs a Java. `site`: the bundled site under stock, sealed,
with what was learned, and with its complete warm-up list. `cost`: processor time of a worker a
request, while it records and without. With names of sites of `make bench-sites`, those in the place
of all that. Each round runs every way once, in turned-around order; ratios are formed within a
round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from benchmarks.image import SITE, get, load
from benchmarks.sites import prepare
from matrix.engines.environments import python_for
from matrix.environments import REPOSITORY, uv
from matrix.redis_server import redis_server
from matrix.sites.catalog import MeasuredSite, load_measured
from matrix.sites.environments import make_environment
from matrix.sites.environments import variables as known_variables
from matrix.spread import spread_of
from pasture.proc import tree
from pasture.proc.smaps import read_memory
from pasture.warmup.requests import read_requests
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group

PACKAGES = REPOSITORY / "build" / "learn"
PANDAS = "pandas==3.1.1"
HERE = Path(__file__).parent / "programs"
TIMEOUT_S = 120.0
VISITS = 3
COST_VISITS = 6

STOCK = {"PASTURE_POLICY": "stock"}

Figures = Mapping[str, float]
Environ = Mapping[str, str]


def environ(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PASTURE_")}
    return {**own, **more}


# -- jobs


def jobs(kind: str, folder: Path, variables: Environ) -> Figures:
    """Figures of the workers that have run jobs; each is the mean over workers."""
    python, path = Path(sys.executable), f"{PACKAGES}{os.pathsep}{HERE}"
    if kind == "spark":
        python, path = python_for("pyspark"), str(HERE)  # which has pandas
    env = environ(PYTHONPATH=path, PYSPARK_PYTHON=str(python), **variables)
    program = [str(python), str(HERE / "learn_jobs.py"), kind]

    def run() -> list[dict[str, float]]:
        done = subprocess.run(program, env=env, stdout=subprocess.PIPE, check=True, text=True)
        found: list[dict[str, float]] = json.loads(done.stdout)
        return found

    if kind != "celery":
        found = run()
    else:
        command = ["run", "celery", "-A", "learn_jobs", "worker", "-c", "2", "-l", "ERROR"]
        words = [sys.executable, "-m", "pasture", *command, "--without-mingle", "--without-gossip"]
        with redis_server(folder) as url:
            env["QUEUE_URL"] = url
            with Group(words, log=folder / "celery.log", env=env, cwd=HERE):
                found = run()
    last = {one["pid"]: one["private"] for one in found}
    first = {one["pid"]: one["seconds"] for one in reversed(found)}
    return {
        "private": statistics.mean(last.values()) / 1e6,
        "first": statistics.mean(first.values()) * 1e3,
    }


# -- site


@contextmanager
def site(
    variables: Environ,
    folder: Path,
    python: Path = Path(sys.executable),
    app: Sequence[str] = ("meadow.wsgi",),
    cwd: Path = SITE,
) -> Iterator[tuple[int, int]]:
    """A site with one worker: that worker's pid, and the port."""
    port = free_port()
    command = [str(python), "-m", "pasture", "run", "gunicorn", "-w", "1"]
    command += ["-b", f"127.0.0.1:{port}", "-t", "300", *app]
    with Group(command, log=folder / "log", env=environ(**variables), cwd=cwd) as server:
        # The process of a probe has come and gone by then.
        server.wait_for(lambda: "Booting worker" in server.log, "no worker", timeout_s=TIMEOUT_S)
        time.sleep(1)
        [worker] = tree.forked_workers(server.pid)
        yield worker, port
        server.terminate()
        server.exit_code(TIMEOUT_S)


def private_mb(pid: int) -> float:
    memory = read_memory(pid)
    return 0.0 if memory is None else memory.private_bytes / 1e6


def processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")


def visit_site(folder: Path, variables: Environ) -> Figures:
    paths, headers = load()
    with site(variables, folder) as (pid, port):
        start = time.perf_counter()
        get(port, paths[0], headers)
        first = (time.perf_counter() - start) * 1e3
        after_one = private_mb(pid)
        for path in paths * VISITS:
            get(port, path, headers)
        return {"first": first, "after one": after_one, "private": private_mb(pid)}


def cost_of(folder: Path, variables: Environ) -> Figures:
    if learned := variables.get("PASTURE_AUTO"):
        Path(learned).unlink(missing_ok=True)
    paths, headers = load()
    with site(variables, folder) as (pid, port):
        before = processor_ms(pid)
        for path in paths * COST_VISITS:
            get(port, path, headers)
        return {"processor": (processor_ms(pid) - before) / len(paths * COST_VISITS)}


# -- other people's applications


def visit_other(folder: Path, chosen: MeasuredSite, python: Path, variables: Environ) -> Figures:
    paths = [
        line.removeprefix("GET ")
        for line in (chosen.data / "urls.txt").read_text().splitlines()
        if line.startswith(("/", "GET /"))
    ]
    headers = dict(read_requests(file).headers) if (file := headers_of(chosen)) else {}
    app = (*chosen.arguments, chosen.app)
    given = {**known_variables(chosen, {}), **variables}
    with site(given, folder, python, app, chosen.data / chosen.chdir) as (pid, port):
        start = time.perf_counter()
        get(port, paths[0], headers)
        first = (time.perf_counter() - start) * 1e3
        for path in paths * VISITS:
            get(port, path, headers)
        return {"first": first, "private": private_mb(pid)}


def headers_of(chosen: MeasuredSite) -> Path | None:
    file = chosen.data / "headers.txt"
    return file if file.exists() else None


def show_others(folder: Path, rounds: int, names: Sequence[str]) -> None:
    for name in names:
        chosen = load_measured()[name]
        make_environment(chosen)
        prepare(chosen)
        python = chosen.python_program
        measure = partial(visit_other, folder, chosen, python)
        learned = {"PASTURE_AUTO": str(folder / f"{name}.auto")}
        measure(learned)
        by_hand = {"PASTURE_WARM_FILE": str(chosen.data / "urls.txt")}
        if file := headers_of(chosen):
            by_hand["PASTURE_WARM_HEADERS_FILE"] = str(file)
        ways = {"stock": STOCK, "sealed": {}, "auto": learned, "by hand": by_hand}
        title = f"{name}: ms of the first request, MB after all of them {VISITS} times"
        compare(title, measure, ways, rounds, "stock")


# -- all


def compare(
    title: str,
    measure: Callable[[Environ], Figures],
    ways: Mapping[str, Environ],
    rounds: int,
    *against: str,
) -> None:
    """Measure the ways in turned-around order, and print their figures and ratios."""
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(measure(ways[name]))
    click.echo(f"\n{title}")
    for name, figures in found.items():
        for figure in figures[0]:
            line = f"  {name:18} {figure:10} {spread_of(one[figure] for one in figures).text():>22}"
            for other in against:
                pairs = zip(figures, found[other], strict=True)
                ratio = spread_of(one[figure] / base[figure] for one, base in pairs)
                line += f"   {ratio.text()} of {other}" if name != other else ""
            click.echo(line)


def show_jobs(folder: Path, rounds: int) -> None:
    target = ("--quiet", "--target", PACKAGES, "--python", sys.executable)
    uv("pip", "install", *target, PANDAS)
    for kind in ("pool", "celery"):
        show_job(kind, folder, rounds)


def show_spark(folder: Path, rounds: int) -> None:
    show_job("spark", folder, rounds)


def show_job(kind: str, folder: Path, rounds: int) -> None:
    measure = partial(jobs, kind, folder)
    learned = {"PASTURE_AUTO": str(folder / f"{kind}.auto")}
    measure(learned)
    ways = {"sealed": {}, "auto": learned}
    compare(f"{kind}: MB a worker, ms of its first job", measure, ways, rounds, "sealed")


def show_site(folder: Path, rounds: int) -> None:
    learned = {"PASTURE_AUTO": str(folder / "site.auto")}
    cost_of(folder, learned)
    whole = folder / "whole.txt"
    parts = (SITE / "var" / name for name in ("headers.txt", "urls.txt"))
    whole.write_text("".join(part.read_text() for part in parts))
    ways = {
        "stock": STOCK,
        "sealed": {},
        "auto": learned,
        "complete list": {"PASTURE_WARM_FILE": str(whole)},
    }
    title = "site: ms of the first request, MB after it and after 180 more"
    compare(title, partial(visit_site, folder), ways, rounds, "stock")


def show_cost(folder: Path, rounds: int) -> None:
    ways = {"sealed": {}, "recording": {"PASTURE_AUTO": str(folder / "cost.auto")}}
    title = f"cost: ms of processor time a request, {60 * COST_VISITS} from the start on"
    compare(title, partial(cost_of, folder), ways, rounds, "sealed")


PARTS = {"jobs": show_jobs, "spark": show_spark, "site": show_site, "cost": show_cost}


@click.command()
@click.option("--part", type=click.Choice([*PARTS]), help="One of them alone.")
@click.option("--rounds", default=3, show_default=True)
@click.argument("others", nargs=-1, metavar="[SITE]...")
def main(part: str | None, rounds: int, others: tuple[str, ...]) -> None:
    """Programs under `--auto`, and without it."""
    if not (SITE / "var" / "urls.txt").exists():
        subprocess.run([sys.executable, "manage.py", "fill"], cwd=SITE, check=True)
    with tempfile.TemporaryDirectory(prefix="pasture-learn-") as name:
        if others:
            show_others(Path(name), rounds, others)
            return
        for each in [part] if part else PARTS:
            PARTS[each](Path(name), rounds)


if __name__ == "__main__":
    main()
