"""kill -9 of workers, molds and arbiters of servers that refork, at random times under load.

Each server loses a worker, a mold, and at last its arbiter. After each kill of a worker or
a mold the service has to come back to full strength, and only requests that the killed
process was serving may be lost. After that of an arbiter nothing may be left.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from matrix.herd import AT_ANY_PRICE, Herd, Load
from pasture.warmup.requests import Request

PROGRAMS = Path(__file__).resolve().parent.parent / "tests" / "programs"
DIRECTORY = Path(__file__).resolve().parent.parent / "var" / "refork-kills"
WORKERS = 3
CLIENTS = 3
BACK_S = 30.0
GONE_S = 10.0
SERVING = 1
"""Requests that one `sync` worker serves at a time."""


class Broken(click.ClickException):
    """Something that must hold did not."""


def wait_for(condition: Callable[[], bool], seconds: float, what: str, herd: Herd) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise Broken(f"{what}: not after {seconds:.0f} s; log:\n{herd.log}")
        time.sleep(0.02)
    return time.monotonic() - began


def start(number: int) -> Herd:
    words = ["--refork", "20", "gunicorn", "-w", f"{WORKERS}", "refork_app:app"]
    env = {"PYTHONPATH": f"{PROGRAMS}:{AT_ANY_PRICE}"}
    directory = DIRECTORY / f"{number}"
    directory.mkdir(parents=True, exist_ok=True)
    return Herd(words, directory=directory, cwd=directory, env=env)


def lost(load: Load) -> int:
    return sum(sent.status != 200 for sent in load.sent)


def kill_one(herd: Herd, load: Load, role: str, chance: random.Random) -> int:
    """Kill a process of a role at a random time; returns how many requests were lost."""
    time.sleep(chance.uniform(0, 2))
    wait_for(lambda: bool(herd.pids(role)), BACK_S, f"a {role}", herd)
    before = lost(load)
    pids = herd.pids(role)
    if pids:
        try:
            os.kill(chance.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended by itself
    time.sleep(0.3)
    wait_for(lambda: len(herd.pids("worker")) >= WORKERS, BACK_S, "full strength", herd)
    answered = len(load.sent)
    wait_for(lambda: len(load.sent) > answered + 2 * CLIENTS, BACK_S, "answers", herd)
    return lost(load) - before


def kill_arbiter(herd: Herd, chance: random.Random) -> float:
    """Kill the arbiter at a random time; returns the seconds until nothing was left."""
    time.sleep(chance.uniform(0, 2))
    herd.kill()
    herd.wait()
    gone = wait_for(lambda: not herd.members(), GONE_S, "the end of all processes", herd)
    wait_for(herd.port_is_free, 1.0, "a free port", herd)
    return gone


@click.command(help=__doc__)
@click.option("--kills", default=50, show_default=True)
@click.option("--seed", default=None, type=int, help="Of the random times.  [default: new]")
def main(kills: int, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    chance = random.Random(seed)
    done, losses, gone = Counter[str](), Counter[str](), []
    number = 0
    while done.total() < kills:
        number += 1
        with start(number) as herd:
            herd.wait_until_it_listens()
            walk = (Request("GET", "/who"),)
            load = Load(herd.port, walk, {}, clients=CLIENTS, requests=None)
            with load.running():
                for role in ("worker", "mold"):
                    missing = kill_one(herd, load, role, chance)
                    if missing > SERVING:
                        raise Broken(f"{missing} requests lost by the end of a {role}\n{herd.log}")
                    done[role] += 1
                    losses[role] += missing
                gone.append(kill_arbiter(herd, chance))
                done["arbiter"] += 1
        click.echo(f"{done.total()} kills: {dict(done)}, requests lost {dict(losses)}")
    click.echo(
        f"seed {seed}: {done.total()} kills, nothing left after an arbiter within "
        f"{max(gone):.2f} s, requests lost by workers {losses['worker']}, by molds {losses['mold']}"
    )


if __name__ == "__main__":
    main()
