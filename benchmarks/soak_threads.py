"""Minutes of seals next to threads that allocate, compute, wait and fork.

`programs/threads.py` runs in a new process each minute: what a seal leaves immortal would pile up.

Meant for the check build, whose verifier walks the heap after each change of it. Exits with 1 if
one of them fails or crashes; its seed repeats what the threads did, not when.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click

PROGRAM = Path(__file__).parent / "programs" / "threads.py"
EACH_S = 60.0


@click.command(help=__doc__)
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the first process.")
def main(minutes: float, seed: int) -> None:
    begin = time.monotonic()
    deadline = begin + 60 * minutes
    rounds = processes = 0
    while (left_s := deadline - time.monotonic()) > 0:
        command = [sys.executable, "-X", "faulthandler", str(PROGRAM)]
        command += [str(min(EACH_S, left_s)), str(seed + processes)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise click.ClickException(f"exit {done.returncode} with seed {seed + processes}")
        rounds += int(done.stdout)
        processes += 1
    took = (time.monotonic() - begin) / 60
    click.echo(f"{rounds:,} seals in {processes} processes, {took:.0f} minutes: clean")


if __name__ == "__main__":
    main()
