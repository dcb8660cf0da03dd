"""`make bench-deploy`: total PSS of a reforking server of the bundled site after HUP.

Once with the warm-up by what was served before (`PASTURE_REFORK_WARM`), once without. The
server is at generation 1 before the HUP. After it each worker answers fewer requests than the next
refork asks for, as right after a deploy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil

from benchmarks.site import DATA, SITE, fill_site
from pasture.proc.smaps import total_pss_bytes
from pasture.trial.plan import LOOPBACK, free_port
from pasture.trial.session import Group, environment
from pasture.warmup.requests import Requests, read_requests

WORKERS = 4
CLIENTS = 4
UNTIL_GENERATION_1, AFTER_HUP = 400, 150
PATIENCE_S = 120.0
MB = 1e6


@dataclass(frozen=True, slots=True)
class Sizes:
    """Total PSS in bytes: at generation 1, after the HUP and its requests, and the most of that."""

    before: int
    after: int
    peak: int


class Server(Group):
    """gunicorn with reforks, and clients for it."""

    def __init__(self, variables: dict[str, str], warms: bool, folder: Path) -> None:
        self.port = free_port()
        told = {"PASTURE_REFORK_WARM": str(int(warms)), "PASTURE_REFORK_LEAST_SAVING": "-100"}
        words = ["gunicorn", "-w", str(WORKERS), "-b", f"{LOOPBACK}:{self.port}"]
        words += ["--control-socket", str(folder / "control"), "meadow.wsgi:application"]
        super().__init__(
            [sys.executable, "-m", "pasture", "run", "--refork", "50,100000", *words],
            log=folder / f"log-{warms}",
            env=environment({**variables, **told, "PYTHONPATH": str(SITE)}),
            cwd=SITE,
        )
        self.until(lambda: self.log.count("Booting worker") >= WORKERS, "no workers")

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.wait_for(condition, what, timeout_s=PATIENCE_S)

    def pss_bytes(self) -> int:
        pids = [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        return total_pss_bytes((self.pid, *pids)) or 0

    def ask(self, walk: Requests, count: int) -> None:
        """Send requests with several clients, the walk over and over."""
        paths = iter(islice(cycle([request.path for request in walk.requests]), count))
        lock = threading.Lock()

        def client() -> None:
            while True:
                with lock:
                    path = next(paths, None)
                if path is None:
                    return
                asked = urllib.request.Request(
                    f"http://{LOOPBACK}:{self.port}{path}", headers=dict(walk.headers)
                )
                with contextlib.suppress(urllib.error.HTTPError, OSError):
                    urllib.request.urlopen(asked, timeout=60).read()

        clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[int]]:
        """Total PSS, looked at three times a second."""
        seen: list[int] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.3):
                with contextlib.suppress(psutil.Error, OSError):
                    seen.append(self.pss_bytes())

        watcher = threading.Thread(target=look)
        watcher.start()
        yield seen
        over.set()
        watcher.join()


def measure(variables: dict[str, str], walk: Requests, warms: bool, folder: Path) -> Sizes:
    """Boot, refork, HUP, and a few requests."""
    with Server(variables, warms, folder) as server:
        server.ask(walk, UNTIL_GENERATION_1)
        done = "all workers are of generation 1"
        server.until(lambda: done in server.log, "no refork")
        server.ask(walk, AFTER_HUP)
        before = server.pss_bytes()
        old = {child.pid for child in psutil.Process(server.pid).children()}
        with server.watched() as seen:
            os.kill(server.pid, signal.SIGHUP)
            server.until(
                lambda: not old & {child.pid for child in psutil.Process(server.pid).children()},
                "the old workers did not end",
            )
            server.ask(walk, AFTER_HUP)
            time.sleep(0.5)
            after = server.pss_bytes()
    return Sizes(before, after, max(seen, default=after))


@click.command()
def main() -> None:
    """Measure a deploy without and with the warm-up by what was served."""
    variables = dict(fill_site())
    walk = read_requests(DATA / "urls.txt") + read_requests(DATA / "headers.txt")
    with TemporaryDirectory() as folder:
        for warms in (False, True):
            sizes = measure(variables, walk, warms, Path(folder))
            click.echo(
                f"{'with' if warms else 'without'} the warm-up: {sizes.before / MB:.0f} MB before, "
                f"{sizes.after / MB:.0f} after HUP, {sizes.peak / MB:.0f} at the most"
            )


if __name__ == "__main__":
    main()
