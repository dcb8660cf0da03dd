"""`make bench-rivals`: other ways to have the workers of a site in less memory, next to the seal.

Each round starts every variant once, in turned-around order, with the same load on the bundled
site, under gunicorn but for the fork server. Ratios to plain workers are formed within a round.
Memory is read after the load: PSS of the whole tree, and private memory of a worker. KSM needs
root, works on the whole machine, and gets a time to merge; its thread's processor time is shown. A
free-threaded interpreter is not obtained: --free-threaded names one that has the site's packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.site import DATA, SITE, make_plan
from matrix.herd import Load
from matrix.spread import paired_ratio, spread_of
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group, environment
from pasture_tools.trial import TrialPlan

CONFIGURATION = Path(__file__).parent / "programs" / "rivals_conf.py"
FORK_SERVER = Path(__file__).parent / "programs" / "rivals_fork_server.py"
DIRECTORY = DATA.parent / "bench-rivals"
IMAGE = DIRECTORY / "site.img"
KSM = Path("/sys/kernel/mm/ksm")
KSM_SETTINGS = {"pages_to_scan": "5000", "sleep_millisecs": "20", "run": "1"}
TIMEOUT_S = 120.0
VARIANTS: Mapping[str, str] = {
    "workers": "gunicorn as it comes: each worker loads the application",
    "preload": "`preload_app`",
    "freeze": "`preload_app`, `gc.disable()` while loading, `gc.freeze()` before the fork",
    "no-gc": "`preload_app`, no collector in workers",
    "cinderx": "`preload_app`, `cinderx.immortalize_heap()` before the fork",
    "threads": "one worker with as many threads",
    "free-threaded": "the same on a free-threaded CPython",
    "ksm": "each worker loads the application, `PR_SET_MEMORY_MERGE`",
    "fork-server": "the forkserver of multiprocessing with the application preloaded, wsgiref",
    "seal": "`pasture run --warm-file ... gunicorn`",
    "image": "the same out of an image of the application (`PASTURE_IMAGE`)",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One run of a variant.

    Attributes:
        start_s: from the start of the server to its first answer.
        private_bytes: of a worker, the mean.
        pss_bytes: of the server with all workers.
        processor_ms: that the server took, a request.
        rate: requests a second.
        ksmd_s: processor time of KSM's thread, in the run and the time to merge.
    """

    start_s: float
    private_bytes: float
    pss_bytes: float
    processor_ms: float
    rate: float
    ksmd_s: float


def command(variant: str, port: int, workers: int, python: str) -> list[str]:
    """The server's, for a port."""
    address = ["--bind", f"{LOOPBACK}:{port}"]
    if variant in ("seal", "image"):
        warm = [word for name in ("headers", "urls") for word in ("--warm-file", _load(name))]
        words = [*warm, "gunicorn", "-w", str(workers), "meadow.wsgi"]
        return [python, "-m", "pasture", "run", *words, *address]
    if variant == "fork-server":
        return [python, str(FORK_SERVER), str(port), str(workers)]
    return [python, "-m", "gunicorn", "-c", str(CONFIGURATION), "meadow.wsgi", *address]


def variables_of(variant: str, plan: TrialPlan, workers: int) -> dict[str, str]:
    """What the server finds in its environment. An image serves one that is as at its build."""
    given = {**plan.env, "PYTHONPATH": str(SITE), "RIVAL": variant, "RIVAL_WORKERS": str(workers)}
    if variant != "image":
        return environment(given, without=())
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    return {**kept, **given, "PASTURE_IMAGE": str(IMAGE), "PASTURE_IMAGE_VERBOSE": "1"}


def build_image(plan: TrialPlan) -> None:
    """An image of the application, which `image` starts from."""
    words = ["image", "build", "-o", str(IMAGE), "--preload", "meadow.wsgi"]
    given = [f"--env={name}={value}" for name, value in plan.env.items()]
    command = [sys.executable, "-m", "pasture", *words, *given]
    environ = variables_of("image", plan, 0)
    subprocess.run(command, check=True, cwd=SITE, env=environ, stdout=subprocess.DEVNULL)


def _load(name: str) -> str:
    return str(DATA / f"{name}.txt")


@contextmanager
def ksm_runs() -> Iterator[None]:
    """KSM at work; its settings are put back."""
    before = {name: (KSM / name).read_text() for name in KSM_SETTINGS}
    for name, value in KSM_SETTINGS.items():
        (KSM / name).write_text(value)
    try:
        yield
    finally:
        for name, value in {**before, "run": "2\n"}.items():  # 2: what was merged is parted
            (KSM / name).write_text(value)
        (KSM / "run").write_text(before["run"])


def ksmd_seconds() -> float:
    """Processor time that KSM's thread has used; 0 where there is none."""
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "ksmd":
            with suppress(psutil.Error):
                return sum(process.cpu_times()[:2])
    return 0.0


def measure(
    variant: str, plan: TrialPlan, requests: int, workers: int, merge_s: float, python: str
) -> Found:
    """Start the variant, load it, read its memory, end it."""
    port = free_port()
    variables = variables_of(variant, plan, workers)
    log = DIRECTORY / f"{variant}.log"
    ksmd = ksmd_seconds()
    words = command(variant, port, workers, python)
    started = time.monotonic()
    with Group(words, log=log, env=variables, cwd=SITE) as server:
        server.wait_for(lambda: listens(port), "it does not listen", timeout_s=TIMEOUT_S)
        _ask(port, plan, 1)
        start_s = time.monotonic() - started
        _ask(port, plan, workers * 8)  # all workers have loaded
        tree = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        before_s = _processor_seconds(tree)
        start = time.monotonic()
        _ask(port, plan, requests)
        rate = requests / (time.monotonic() - start)
        processor_ms = (_processor_seconds(tree) - before_s) / requests * 1e3
        if variant == "ksm":
            time.sleep(merge_s)
        full = [process.memory_full_info() for process in tree]
        # Besides the workers there are their parent and, of multiprocessing, its helpers.
        served = [one.uss for process, one in zip(tree, full, strict=True) if _served(process)]
        private = sum(served) / len(served)
        pss = sum(one.pss for one in full)
        server.terminate()
        server.wait(TIMEOUT_S)
    if variant == "image" and "started from the image" not in log.read_text():
        raise click.ClickException(log.read_text().partition("\n")[0])
    return Found(start_s, private, pss, processor_ms, rate, ksmd_seconds() - ksmd)


def _served(process: psutil.Process) -> bool:
    """Whether it is a worker: it has no child and took some of the load."""
    return not process.children() and sum(process.cpu_times()[:2]) > 0.5


def _ask(port: int, plan: TrialPlan, requests: int) -> None:
    load = Load(port, plan.urls, dict(plan.headers), clients=plan.workers, requests=requests)
    with load.running():
        load.join()
    failed = [one for one in load.sent if not 200 <= one.status < 400]
    if failed:
        raise click.ClickException(f"{len(failed)} requests failed, first {failed[0]}")


def _processor_seconds(tree: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in tree)


def table_of(found: Mapping[str, list[Found]]) -> Table:
    """A row a variant."""
    table = Table(title="Medians, and ratios to plain workers", box=box.SIMPLE_HEAD)
    for heading in ("", "private each, MB", "PSS of all, MB", "ratio", "ms a request", "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    for heading in ("requests a second, ratio", "first answer, s", "ksmd, s"):
        table.add_column(heading, justify="right")
    for name, runs in found.items():
        plain = found["workers"]

        def ratio(field: str, runs: list[Found] = runs, plain: list[Found] = plain) -> str:
            ours, theirs = ([getattr(one, field) for one in each] for each in (runs, plain))
            return paired_ratio(ours, theirs).cell()

        table.add_row(
            name,
            spread_of(one.private_bytes for one in runs).cell(1e6),
            spread_of(one.pss_bytes for one in runs).cell(1e6),
            ratio("pss_bytes"),
            spread_of(one.processor_ms for one in runs).cell(),
            ratio("processor_ms"),
            ratio("rate"),
            spread_of(one.start_s for one in runs).cell(),
            spread_of(one.ksmd_s for one in runs).cell() if name == "ksm" else "",
        )
    return table


@click.command()
@click.argument("names", nargs=-1, metavar="[VARIANT ...]", type=click.Choice([*VARIANTS]))
@click.option("--rounds", default=3, show_default=True)
@click.option("--requests", default=1200, show_default=True, help="Of each run.")
@click.option("--workers", default=4, show_default=True)
@click.option("--merge", default=30.0, show_default=True, help="Seconds for KSM after the load.")
@click.option(
    "--free-threaded", metavar="PYTHON", help="A free-threaded one with the site's packages."
)
def main(
    names: tuple[str, ...],
    rounds: int,
    requests: int,
    workers: int,
    merge: float,
    free_threaded: str | None,
) -> None:
    """Compare other ways with the seal; plain workers are always one of them."""
    chosen = [name for name in VARIANTS if not names or name in names or name == "workers"]
    if "ksm" in chosen and not os.access(KSM / "run", os.W_OK):
        chosen.remove("ksm")
        click.echo("ksm: left out, it needs root and a kernel with KSM", err=True)
    if "free-threaded" in chosen and free_threaded is None:
        chosen.remove("free-threaded")
        click.echo("free-threaded: left out, no --free-threaded", err=True)
    plan = make_plan(requests, workers, 1, ("stock",))
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if "image" in chosen:
        build_image(plan)
    found: dict[str, list[Found]] = {name: [] for name in chosen}
    for number in range(rounds):
        for name in chosen if number % 2 == 0 else reversed(chosen):
            python = free_threaded if name == "free-threaded" and free_threaded else sys.executable
            with ksm_runs() if name == "ksm" else nullcontext():
                one = measure(name, plan, requests, workers, merge, python)
            found[name].append(one)
            click.echo(f"round {number + 1}: {name}: {one}", err=True)
    Console(width=150).print(table_of(found))
    for name in chosen:
        click.echo(f"{name:13} {VARIANTS[name]}")
    click.echo(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
