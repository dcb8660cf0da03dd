"""What a server that reforks takes after many generations: it shall be what it took after few.

A trivial application under `pasture run --refork`, one generation after the other. Of the
arbiter, the mold and the workers are counted, once each generation is complete: descriptors,
threads, mappings and anonymous memory. Early generations still warm up; after them each of
these has to stay within what it wavers by.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.faults.growth import Size, size_of
from matrix.herd import AT_ANY_PRICE, Herd

PROGRAMS = Path(__file__).resolve().parent.parent / "tests" / "programs"
DIRECTORY = Path(__file__).resolve().parent.parent / "var" / "generations"
WORKERS = 2
REQUESTS = 5
"""Of a worker, until it becomes the next parent."""

TIMEOUT_S = 60.0

MAX_A_GENERATION: Mapping[str, float] = {
    "descriptors": 0.0,
    "threads": 0.0,
    "mappings": 0.05,
    "kib": 12.0,
}
"""Growth of a process by generation. Some 75 sealed objects of each worker stay for good: the
worker itself, its handlers of signals and the like. These are 8 KiB, 10 with the plugs of each
hundredth generation, and some three mappings in 100 generations: what a forked process adds to the
heap, or maps next to another mapping, the kernel does not join to what was there."""

WAVERS_BY: Mapping[str, float] = {"descriptors": 0, "threads": 0, "mappings": 4, "kib": 150}
"""Difference between two generations that means nothing."""


class Broken(click.ClickException):
    """Something grows, or the server does not go on."""


def start(requests: int, worker_class: str) -> Herd:
    app = "refork_asgi_app:app" if _is_asgi(worker_class) else "steady_app"
    words = ["--refork", f"{requests}", "gunicorn", "-w", f"{WORKERS}", "-k", worker_class, app]
    env = {"PYTHONPATH": f"{PROGRAMS}:{AT_ANY_PRICE}"}
    return Herd(words, directory=DIRECTORY, cwd=DIRECTORY, env=env)


def _is_asgi(worker_class: str) -> bool:
    return worker_class == "asgi" or "uvicorn" in worker_class


def reach(herd: Herd, generation: int, clients: ThreadPoolExecutor, path: str) -> None:
    """Send requests until all workers are of a generation and the mold before is gone."""
    wanted = [("mold", generation)] + [("worker", generation)] * WORKERS
    deadline = time.monotonic() + TIMEOUT_S
    while sorted((e.role, e.generation or 0) for e in herd.board().values()) != wanted:
        if time.monotonic() > deadline:
            raise Broken(f"generation {generation} is not reached; log:\n{herd.log[-3000:]}")
        # Later generations begin before this one was looked at, if there is too much load.
        if not any((entry.generation or 0) >= generation for entry in herd.board().values()):
            list(clients.map(get, [f"http://127.0.0.1:{herd.port}{path}"] * WORKERS * 2))
        time.sleep(0.02)


def get(url: str) -> None:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        answer.read()


def sizes(herd: Herd) -> dict[str, Size]:
    """Of each role; of the workers the largest."""
    found = {"arbiter": size_of(herd.pid), "mold": size_of(herd.pids("mold")[0])}
    workers = [size_of(pid) for pid in herd.pids("worker")]
    largest = {name: max(asdict(worker)[name] for worker in workers) for name in asdict(workers[0])}
    return {**found, "worker": Size(**largest)}


def grown(role: str, samples: Sequence[Size]) -> list[str]:
    """What has grown from the first to the last generation, a line each."""
    first, last, rounds = asdict(samples[0]), asdict(samples[-1]), len(samples) - 1
    return [
        f"{role}: {name} {first[name]} -> {last[name]} in {rounds} generations"
        for name, most in MAX_A_GENERATION.items()
        if last[name] - first[name] > most * rounds + WAVERS_BY[name]
    ]


def run(generations: int, warm: int, worker_class: str) -> list[str]:
    """Returns what grows, a line each.

    Args:
        generations: in all.
        warm: of them at the beginning, which do not count.
        worker_class: as gunicorn's `-k` takes it.
    """
    taken: list[dict[str, Size]] = []
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = "/who" if _is_asgi(worker_class) else "/"
    with start(REQUESTS, worker_class) as herd, ThreadPoolExecutor(WORKERS * 2) as clients:
        herd.wait_until_it_listens()
        for generation in range(1, generations + 1):
            reach(herd, generation, clients, path)
            taken.append(sizes(herd))
            shown = {role: asdict(size) for role, size in taken[-1].items()}
            click.echo(json.dumps({"generation": generation, **shown}))
        if herd.stop() != 0 or herd.members():
            raise Broken(f"the server has not ended as it should; log:\n{herd.log[-3000:]}")
    return [
        line for role in taken[0] for line in grown(role, [sample[role] for sample in taken[warm:]])
    ]


@click.command()
@click.option("--generations", default=300)
@click.option("--warm", default=20, help="Generations at the beginning that do not count.")
@click.option("-k", "--worker-class", default="sync", help="gunicorn's: gevent, asgi ...")
def main(generations: int, warm: int, worker_class: str) -> None:
    """Refork again and again, and count what the processes take."""
    found = run(generations, warm, worker_class)
    if found:
        raise Broken("\n".join(found))
    click.echo(f"{generations} generations: nothing grows")


if __name__ == "__main__":
    main()
