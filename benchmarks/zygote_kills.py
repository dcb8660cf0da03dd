"""kill -9 of programs out of a zygote, of its server, and of what makes zygotes, at random times.

After each kill: nothing of the killed is left, programs that were not killed end with their own
status, and requests meanwhile were answered, by a zygote or by the interpreter itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from benchmarks.zygote import STUB, Environ, pasture, server_pid

ROUND = 10
"""Programs that run at a time; one of them, or the server, is killed."""

SOURCE = (
    "import json, os, sys, time, subprocess as s; time.sleep({seconds}); "
    "sys.exit(json.loads('{status}'))"
)
TIMEOUT_S = 120.0


class Broken(click.ClickException):
    """Something that must hold did not."""


def programs(environ: Environ, chance: random.Random) -> dict[int, subprocess.Popen[bytes]]:
    """Running programs, by the status that they will end with."""
    return {
        status: subprocess.Popen(
            [STUB, "-c", SOURCE.format(seconds=chance.uniform(0, 0.6), status=status)], env=environ
        )
        for status in range(100, 100 + ROUND)
    }


def marked(folder: str) -> set[int]:
    """Processes that have the folder in their environment."""
    mark = f"XDG_RUNTIME_DIR={folder}\0".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def kill_one(environ: Environ, chance: random.Random) -> str:
    """One round; returns what was killed."""
    running = programs(environ, chance)
    time.sleep(chance.uniform(0, 0.5))
    what = chance.choice(("program", "program", "server", "builder"))
    killed = 0
    if what == "program":
        killed = chance.choice(list(running))
        running[killed].kill()
    else:
        server = server_pid(environ)
        victims = [server]
        if what == "builder":
            subprocess.Popen(
                [sys.executable, "-m", "pasture", "zygote", "reload"],
                env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(chance.uniform(0.2, 1.0))
            below = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            victims = [int(pid) for pid in below] or [server]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    check_statuses(running, killed)
    return what


def check_statuses(running: dict[int, subprocess.Popen[bytes]], killed: int) -> None:
    for status, process in running.items():
        ended = process.wait(TIMEOUT_S)
        if ended != status and not (status == killed and ended == -signal.SIGKILL):
            raise Broken(f"a program ended with {ended} in the place of {status}")


@click.command(help=__doc__)
@click.option("--kills", default=200, show_default=True)
@click.option("--seed", default=None, type=int, help="Of the random times.  [default: new]")
def main(kills: int, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    chance = random.Random(seed)
    done = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="zygote-") as folder:
        environ = {**os.environ, "XDG_RUNTIME_DIR": folder}
        try:
            is_running = False
            while done.total() < kills:
                if not is_running:
                    pasture(environ, "start", "--preload", "json")
                what = kill_one(environ, chance)
                done[what] += 1
                is_running = what == "program"
        finally:
            pasture(environ, "stop", check=False)
        end = time.monotonic() + TIMEOUT_S
        while (left := marked(folder)) and time.monotonic() < end:
            time.sleep(0.1)
    if left:
        raise Broken(f"processes are left: {sorted(left)}")
    click.echo(
        f"seed {seed}: {done.total()} kills {dict(done)}: no process left, no exit status lost "
        "but that of the killed"
    )


if __name__ == "__main__":
    main()
