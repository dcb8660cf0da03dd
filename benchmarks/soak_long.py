"""Hours of faults next to each other, in pieces, and whether long-lived parents grow.

gunicorn with reforks, gunicorn out of an image next to programs out of it, Celery sealed and plain,
and a parent that seals again and again: each is one life without an end, at low load. A piece adds
its samples to `var/long/NAME/sizes.jsonl`; an interrupted one counts with what it has. Ends with
the table of all pieces, and a failure if something was lost or grows. Celery fails where it does
worse than plain Celery next to it.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.faults.growth import courses, grown, read
from matrix.environments import REPOSITORY

FOLDER = REPOSITORY / "var" / "long"
SERVERS = ("gunicorn-refork", "gunicorn-image", "celery")
PLAIN = {"celery": "celery-plain"}
"""What else runs, under the same faults, and is what a server is compared with."""

BY_CHANCE = 2
"""How much oftener than plain a server may end by itself, or be late with coming back."""

SEALS = {"seals": 0, "seals-replaced": 300}
"""How many of 30,000 sealed records are replaced between two seals."""


def command(name: str, minutes: float, every_s: float, slower: float, seed: int) -> list[str]:
    if name in SEALS:
        program = ["-m", "benchmarks.programs.churn", f"{FOLDER / name / 'sizes.jsonl'}"]
        return [sys.executable, *program, f"{minutes * 60}", f"{every_s}", f"{SEALS[name]}"]
    words = ["--server", name, "--minutes", f"{minutes}", "--every", f"{every_s}"]
    words += ["--slower", f"{slower}", "--seed", f"{seed}", "--spare-master"]
    words += ["--directory", f"{FOLDER}"]
    return [sys.executable, "-m", "benchmarks.soak_faults", *words]


def run(names: Sequence[str], minutes: float, every_s: float, slower: float) -> list[str]:
    """A piece of each, all at once; returns those that failed. On a TERM all are ended."""
    processes, seed = {}, random.randrange(10**6)
    try:
        for name in names:
            (FOLDER / name).mkdir(parents=True, exist_ok=True)
            (FOLDER / name / "result.json").unlink(missing_ok=True)
            with (FOLDER / name / "output.txt").open("ab") as output:
                words = command(name, minutes, every_s, slower, seed)
                processes[name] = subprocess.Popen(words, stdout=output, stderr=output)
        return [name for name, process in processes.items() if process.wait() != 0]
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()


def violations(name: str) -> Counter[str]:
    """Of the latest piece, by their first words; none where it has not come so far."""
    with contextlib.suppress(FileNotFoundError):
        found = json.loads((FOLDER / name / "result.json").read_text())["violations"]
        return Counter(one["what"].partition(":")[0] for one in found)
    return Counter()


def worse(ours: Counter[str], plain: Counter[str]) -> list[str]:
    """What a server does oftener than the plain one, a phrase each; a loss is never chance."""
    return [
        f"{what}: {count}, plain {plain[what]}"
        for what, count in ours.items()
        if count > plain[what] + (0 if what == "lost" else BY_CHANCE)
    ]


def compared(failed: Sequence[str]) -> list[str]:
    """What failed, a phrase each, without what a plain server next to it does as well."""
    found = []
    for name in failed:
        if name in PLAIN and (ours := violations(name)):
            found += [f"{name}: {line}" for line in worse(ours, violations(PLAIN[name]))]
        elif name not in PLAIN.values():
            found.append(name)
    return found


def show() -> list[str]:
    """Print the table of what is kept; returns which servers grow, and plain ones do not."""
    growing: dict[tuple[str | None, str], str] = {}
    columns = ("", "minutes", "work", "memory, KiB", "a thousand", "private, KiB", "a thousand")
    table = Table(*columns, "descriptors", "threads", "mappings", "a thousand", box=box.SIMPLE_HEAD)
    for name in (*SERVERS, *PLAIN.values(), *SEALS):
        for _, role, work, minutes, found in courses(read(FOLDER / name / "sizes.jsonl")):
            cells = [f"{name}: {role}", f"{minutes:.0f}", f"{work:,}"]
            if more := grown(found):
                growing[name, role] = ", ".join(more)
            for figure in ("kib", "private_kib"):
                course = found[figure]
                cells += [
                    f"{course.before:,.0f} to {course.after:,.0f}",
                    f"{course.slope * 1000:+.1f}",
                ]
            for figure in ("descriptors", "threads", "mappings"):
                cells.append(f"{found[figure].before:.0f} to {found[figure].after:.0f}")
            table.add_row(*cells, f"{found['mappings'].slope * 1000:+.2f}")
    Console(width=150).print(table)
    return [
        f"{name}, {role}: {more}"
        for (name, role), more in growing.items()
        if name in SERVERS and (PLAIN.get(name), role) not in growing
    ]


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice((*SERVERS, *SEALS)))
@click.option("--minutes", default=90.0, show_default=True, help="Of this piece.")
@click.option("--every", default=15.0, show_default=True, help="Seconds from fault to fault.")
@click.option("--slower", default=4.0, show_default=True, help="Load, by this factor.")
@click.option("--table", "only_table", is_flag=True, help="Show what is kept, run nothing.")
def main(
    names: tuple[str, ...], minutes: float, every: float, slower: float, only_table: bool
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    names = names or (*SERVERS, *SEALS)
    together = (*names, *(PLAIN[name] for name in names if name in PLAIN))
    failed = [] if only_table else compared(run(together, minutes, every, slower))
    growing = show()
    if growing:
        raise click.ClickException("; ".join(growing))
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}; see {FOLDER}/*/output.txt")


if __name__ == "__main__":
    main()
