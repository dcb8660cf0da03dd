"""All programs of the bundled site at once: one heap out of an image, and each on its own.

Four web workers under gunicorn, a Celery worker with four pool processes, beat, a consumer, and a
command every ten seconds. They run under `python`, with each server sealed by itself, and all out
of one image, one way after the other. Figures are sums of PSS over all processes, sampled while
pages are asked for: the mean, so that the command counts for as long as it runs.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from benchmarks.image import SITE, load, require_started
from matrix.redis_server import redis_server
from pasture.proc import smaps, tree
from pasture_tools.launch.ports import free_port, listens
from pasture_tools.launch.session import Group, tail

BIN = Path(sys.executable).parent
WORKERS = 4
EVERY_S = 10.0
SAMPLE_S = 0.2
TIMEOUT_S = 120.0
PRELOAD = (
    "meadow.wsgi,meadow.celery,meadow.orders.tasks,gunicorn.app.wsgiapp,gunicorn.workers.sync,"
    "celery.bin.celery,celery.apps.worker,celery.apps.beat,celery.concurrency.prefork,dbm.sqlite3,"
    "celery.contrib.django.task,celery.worker.control,celery.worker.request,celery.__main__,"
    "kombu.transport.redis,django.core.management,meadow.orders.management.commands.follow,"
    "meadow.orders.management.commands.takings"
)
"""For the image: what the five programs import."""
REHEARSAL = """\
import io
from django.core.management import call_command
from meadow.celery import app
from meadow.orders.models import Order
from meadow.orders.tasks import count_stock, write_receipt
app.loader.import_default_modules()
app.amqp, app.log, app.control
call_command("check")
call_command("takings", stdout=io.StringIO())
count_stock()
write_receipt(Order.objects.first().number)
"""
"""What they do before they wait, and once."""

Environ = Mapping[str, str]


def commands(way: str, port: int) -> tuple[dict[str, list[str]], list[str]]:
    """The programs that stay, and the command that comes and goes."""
    python = str(BIN / ("pasture-python" if way == "image" else "python"))
    server = ["-m", "pasture", "run"] if way != "python" else ["-m"]
    start = [str(BIN / "python"), *server]
    web = ["gunicorn", "-w", str(WORKERS), "-b", f"127.0.0.1:{port}", "meadow.wsgi"]
    worker = ["celery", "-A", "meadow.celery", "worker", "-c", str(WORKERS), "-l", "ERROR"]
    beat = ["celery", "-A", "meadow.celery", "beat", "-l", "ERROR", "-s", "beat"]
    manage = [python, str(SITE / "manage.py")]
    stay = {
        "web": [*start, *web],
        "worker": [*start, *worker],
        "beat": [python, "-m", *beat],
        "consumer": [*manage, "follow"],
    }
    return stay, [*manage, "takings"]


@contextmanager
def background(act: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=act, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Sampled:
    """PSS of all programs, bytes: one sum a sample, and each program's own."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.of: dict[str, list[int]] = {}

    def sample(self, pids: Mapping[str, int]) -> None:
        found = {
            name: smaps.total_pss_bytes((pid, *tree.descendants(pid))) for name, pid in pids.items()
        }
        if None not in found.values():  # else a process has ended meanwhile
            sizes = {name: size or 0 for name, size in found.items()}
            self.totals.append(sum(sizes.values()))
            for name, size in sizes.items():
                self.of.setdefault(name, []).append(size)


def pages(port: int) -> Iterator[None]:
    paths, headers = load()
    for path in itertools.cycle(paths):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read()
        yield


def measure(way: str, environ: Environ, folder: Path, seconds: float) -> Sampled:
    port = free_port()
    stay, command = commands(way, port)
    sampled = Sampled()
    send = [str(BIN / "python"), "-m", "celery", "-A", "meadow.celery", "call"]
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(
                Group(words, log=folder / f"{way}-{name}.log", env=environ, cwd=folder)
            )
            for name, words in stay.items()
        }
        groups["web"].wait_for(
            lambda: listens(port), "the site does not listen", timeout_s=TIMEOUT_S
        )
        asked = pages(port)
        for _ in range(60 * WORKERS):  # each worker has served each page, more or less
            next(asked)
        for _ in range(3 * WORKERS):
            words = [*send, "meadow.orders.tasks.count_stock"]
            subprocess.run(words, env=environ, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        def come_and_go(stop: threading.Event) -> None:
            while not stop.wait(EVERY_S):
                with Group(
                    command, log=folder / f"{way}-command.log", env=environ, cwd=folder
                ) as one:
                    groups["command"] = one
                    one.wait(TIMEOUT_S)
                    del groups["command"]

        end = time.monotonic() + seconds
        with background(come_and_go):
            while time.monotonic() < end:
                next(asked)
                sampled.sample({name: group.pid for name, group in list(groups.items())})
                time.sleep(SAMPLE_S)
        for name, group in groups.items():
            if not tree.is_running(group.pid):
                raise click.ClickException(f"{name} has ended:\n{tail(group.log)}")
    return sampled


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="Of sampling, each way.")
@click.option("--rounds", default=2, show_default=True)
def main(seconds: float, rounds: int) -> None:
    """PSS of the five programs under python, sealed one by one, and out of one image."""
    subprocess.run(
        [BIN / "python", SITE / "manage.py", "fill"], check=True, stdout=subprocess.DEVNULL
    )
    totals: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="programs-")))
        broker = stack.enter_context(redis_server(folder))
        base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        base |= {"PYTHONPATH": str(SITE), "MEADOW_BROKER": broker}
        base["DJANGO_SETTINGS_MODULE"] = "meadow.settings"
        image = folder / "app.img"
        build(image, base)
        for _ in range(rounds):
            for way in ("python", "sealed", "image"):
                environ = {**base, "PASTURE_IMAGE": str(image)} if way == "image" else base
                if way == "image":
                    require_started(environ)
                found = measure(way, environ, folder, seconds)
                mean = statistics.mean(found.totals)
                totals.setdefault(way, []).append(mean)
                each = ", ".join(
                    f"{name} {statistics.mean(sizes) / 1e6:.0f}" for name, sizes in found.of.items()
                )
                click.echo(f"{way:8} PSS {mean / 1e6:6.0f} MB: {each}")
    for way in ("python", "sealed"):
        ratios = sorted(a / b for a, b in zip(totals["image"], totals[way], strict=True))
        click.echo(
            f"image to {way}: {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        )


def build(image: Path, environ: Environ) -> None:
    rehearsal = image.with_name("rehearsal.py")
    rehearsal.write_text(REHEARSAL)
    words: Sequence[str] = (
        *("image", "build", "-o", str(image), "--preload", PRELOAD),
        *(f"--env={name}" for name in ("MEADOW_BROKER", "DJANGO_SETTINGS_MODULE")),
        f"--rehearse={rehearsal}",
        *(f"--warm-file={SITE / 'var' / name}" for name in ("urls.txt", "headers.txt")),
    )
    began = time.perf_counter()
    subprocess.run([BIN / "python", "-m", "pasture", *words], env=environ, check=True)
    click.echo(f"built in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
