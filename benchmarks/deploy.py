"""`make bench-deploy`: total PSS of a reforking server of the bundled site after HUP.

Once with the warm-up by what was served before (`PASTURE_REFORK_WARM`), once without. The
server is at generation 1 before the HUP. After it each worker answers fewer requests than the next
refork asks for, as right after a deploy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import Self

import click
import psutil

from benchmarks.site import DATA, SITE, make_plan
from matrix.herd import Herd, Load
from pasture.proc.smaps import total_pss_bytes
from pasture.trial import TrialPlan

DIRECTORY = DATA.parent / "bench-deploy"
WORKERS = 4
UNTIL_GENERATION_1, AFTER_HUP = 400, 150
TIMEOUT_S = 120.0
MB = 1e6


@dataclass(frozen=True, slots=True)
class Sizes:
    """Total PSS in bytes: at generation 1, after the HUP and its requests, and the most of that."""

    before: int
    after: int
    peak: int


class PssWatch:
    """Total PSS of a server, looked at three times a second inside of the `with` block.

    Attributes:
        seen: in bytes.
    """

    def __init__(self, herd: Herd) -> None:
        self.seen: list[int] = []
        self._herd, self._over = herd, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.3):
            with contextlib.suppress(psutil.Error, OSError):
                self.seen.append(pss_bytes(self._herd))


def pss_bytes(herd: Herd) -> int:
    pids = [child.pid for child in psutil.Process(herd.pid).children(recursive=True)]
    return total_pss_bytes((herd.pid, *pids)) or 0


def ask(herd: Herd, plan: TrialPlan, requests: int) -> None:
    load = Load(herd.port, plan.urls, dict(plan.headers), clients=WORKERS, requests=requests)
    with load.running():
        load.join()


def measure(plan: TrialPlan, warms: bool) -> Sizes:
    """Boot, refork, HUP, and a few requests."""
    limits = {"PASTURE_REFORK_WARM": str(int(warms)), "PASTURE_REFORK_LEAST_SAVING": "-100"}
    words = ["--refork", "50,100000", "gunicorn", "-w", str(WORKERS), plan.app]
    with Herd(words, directory=DIRECTORY, cwd=SITE, env={**plan.env, **limits}) as herd:
        herd.wait_until_it_listens()
        ask(herd, plan, UNTIL_GENERATION_1)
        done = "all workers are of generation 1"
        herd.wait_for(lambda: done in herd.log, "no refork", timeout_s=TIMEOUT_S)
        ask(herd, plan, AFTER_HUP)
        before, old = pss_bytes(herd), set(herd.pids("worker"))
        with PssWatch(herd) as watch:
            os.kill(herd.pid, signal.SIGHUP)
            herd.wait_for(
                lambda: not old & set(herd.pids("worker")),
                "the old workers did not end",
                timeout_s=TIMEOUT_S,
            )
            ask(herd, plan, AFTER_HUP)
            time.sleep(0.5)
            after = pss_bytes(herd)
    return Sizes(before, after, max(watch.seen, default=after))


@click.command()
def main() -> None:
    """Measure a deploy without and with the warm-up by what was served."""
    plan = make_plan(AFTER_HUP, WORKERS, 1, ("refork",))
    for warms in (False, True):
        sizes = measure(plan, warms)
        click.echo(
            f"{'with' if warms else 'without'} the warm-up: {sizes.before / MB:.0f} MB before, "
            f"{sizes.after / MB:.0f} after HUP, {sizes.peak / MB:.0f} at the most"
        )


if __name__ == "__main__":
    main()
