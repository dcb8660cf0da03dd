"""`make bench-site-child`: one child of the sealed site, without a server, request by request.

The parent loads the bundled site, warms up and seals; one child serves the same requests
through the WSGI object. No socket, no client, no second worker: what is private at the end
repeats within 1%, so that small savings can be seen. The options change what the child does
about its garbage. Processor time of collections is the child's own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click

import pasture
import pasture.gc
from benchmarks.site import DATA, SITE, fill_site
from pasture.interpreter import native
from pasture.proc.smaps import read_memory
from pasture.warmup import wsgi
from pasture.warmup.requests import Requests, read_requests

HOST = "127.0.0.1"
LOOK_EVERY = 20
MB = 1e6


@dataclass(slots=True)
class Found:
    """What the child measured of itself.

    Attributes:
        private_mb: at the end.
        mean_private_mb: over the second half, looked at every 20 requests.
        cpu_s: of the requests, collections included.
        collections: by generation.
        collections_cpu_s: likewise, giving memory back included.
    """

    private_mb: float
    mean_private_mb: float
    cpu_s: float
    collections: list[int]
    collections_cpu_s: list[float]


class Clock:
    """Processor time of collections, read in `gc.callbacks`."""

    def __init__(self) -> None:
        self.seconds, self.counts = [0.0] * 3, [0] * 3
        self._began = 0.0
        gc.callbacks.append(self)

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.thread_time()
            return
        self.seconds[info["generation"]] += time.thread_time() - self._began
        self.counts[info["generation"]] += 1


def load_site() -> tuple[Callable[..., Any], Requests]:
    os.environ.update(fill_site())
    os.chdir(SITE)
    sys.path.insert(0, str(SITE))
    application = importlib.import_module("meadow.wsgi").application

    walk, common = read_requests(DATA / "urls.txt"), read_requests(DATA / "headers.txt")
    return application, Requests(walk.requests, (*walk.headers, *common.headers))


def private_mb() -> float:
    memory = read_memory(os.getpid())
    return memory.private_bytes / MB if memory else 0.0


def serve_all(application: Callable[..., Any], asked: Requests, count: int, between: bool) -> Found:
    """Serve in the child, and measure."""
    clock, seen, begin = Clock(), [], time.process_time()
    for i, request in enumerate(islice(cycle(asked.requests), count)):
        wsgi.call(application, wsgi.build_environ(request, asked.headers, HOST))
        if between:
            pasture.gc.collect_between_requests()
        if i > count // 2 and i % LOOK_EVERY == 0:
            seen.append(private_mb())
    cpu_s = time.process_time() - begin
    mean = sum(seen) / max(1, len(seen))
    return Found(private_mb(), mean, cpu_s, clock.counts, clock.seconds)


def settle(older: tuple[int, int] | None, trim: bool | None) -> None:
    """Change what a child of a sealed process does, where asked to."""
    if older is not None:
        gc.set_threshold(gc.get_threshold()[0], *older)
    if trim is not None:
        native().trim_after_collections(trim)


def in_child(work: Callable[[], Found]) -> tuple[int, Found, Callable[[], None]]:
    """Fork; the child's pid, what it found, and how to let it go."""
    result_r, result_w = os.pipe()
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(result_w, json.dumps(asdict(work())).encode())
        os.close(result_w)
        os.read(go_r, 1)
        os._exit(0)
    os.close(result_w)
    with os.fdopen(result_r, "rb") as result:
        found = Found(**json.loads(result.readline()))

    def let_go() -> None:
        os.write(go_w, b"x")
        os.waitpid(pid, 0)

    return pid, found, let_go


@click.command(help=__doc__)
@click.option("--requests", default=500, show_default=True)
@click.option("--policy", default="seal", show_default=True)
@click.option("--passes", default=1, show_default=True, help="Of the warm-up.")
@click.option("--older", type=(int, int), help="Thresholds of generations 1 and 2.")
@click.option("--trim/--no-trim", default=None, help="Give free memory back after collections.")
@click.option("--between", is_flag=True, help="Collect between requests as well.")
@click.option("--snapshot", type=click.Path(path_type=Path), help="Written, and used to explain.")
@click.option("--explain", "explains", is_flag=True, help="Say what is private, and why.")
def main(
    requests: int,
    policy: str,
    passes: int,
    older: tuple[int, int] | None,
    trim: bool | None,
    between: bool,
    snapshot: Path | None,
    explains: bool,
) -> None:
    application, asked = load_site()

    def warm_up() -> pasture.WarmUpReport:
        return pasture.warm_up(application, asked.requests * passes, headers=asked.headers)

    pasture.seal(policy, warm_up=warm_up, snapshot=snapshot)

    def work() -> Found:
        settle(older, trim)
        return serve_all(application, asked, requests, between)

    pid, found, let_go = in_child(work)
    click.echo(
        f"private      {found.private_mb:.2f} MB at the end, {found.mean_private_mb:.2f} mean"
    )
    counts = ", ".join(map(str, found.collections))
    seconds = ", ".join(f"{s * 1e3:.0f}" for s in found.collections_cpu_s)
    click.echo(f"collections  {counts} by generation, in {seconds} ms of processor time")
    click.echo(f"processor    {found.cpu_s:.2f} s for {requests} requests")
    if explains:  # by a third process: what this one writes would be compared as well
        command = [sys.executable, "-m", "pasture", "explain", str(pid)]
        subprocess.run([*command, *(("--snapshot", str(snapshot)) if snapshot else ())], check=True)
    let_go()


if __name__ == "__main__":
    main()
