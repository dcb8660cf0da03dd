"""Random programs under pasture: `python tests/fuzz --minutes 60 --python 3.12`.

Each case runs in a process of its own, on the check build of an interpreter, until the time is
over. What fails is stored with its seed, shortened, in build/fuzz; statistics go into
build/fuzz/3.X.json, and the next run goes on where the last one ended. Exits with 1 if a case
failed or none was run.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import click
from case import Operation, count, generate, setting_of
from execution import Ending, Servers, words_of
from shrink import shrink
from tally import Tally

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RESULTS = REPOSITORY / "build" / "fuzz"
SHRINKING_SECONDS = 120


def find_python(named: str | None) -> Path:
    """The check build of a version such as "3.12", or an interpreter by its path."""
    if named is None:
        return Path(sys.executable)
    if "/" in named:
        return Path(named)
    return REPOSITORY / ".venvs" / f"{named.removesuffix('-check')}-check" / "bin" / "python"


def name_of(python: Path) -> str:
    """Names the files of results: 3.12 for .venvs/3.12-check/bin/python."""
    return python.parent.parent.name.removesuffix("-check")


def store(name: str, seed: int, operations: tuple[Operation, ...], ending: Ending) -> Path:
    """Write a failure down; `python tests/fuzz --replay FILE` runs it again."""
    path = RESULTS / f"{name}-seed-{seed}.json"
    data = [operation.as_json() for operation in operations]
    path.write_text(json.dumps({"seed": seed, "operations": data}) + "\n")
    path.with_suffix(".txt").write_text(f"exit status {ending.status}\n{ending.output}")
    return path


def shorten(
    servers: Servers, seed: int, operations: tuple[Operation, ...]
) -> tuple[tuple[Operation, ...], Ending]:
    """The shortest list that still fails, as far as the time allows, and how it ends."""
    end = time.monotonic() + SHRINKING_SECONDS
    begin = time.monotonic()
    last = [servers.execute(operations, seed)]
    if not last[0].failed or last[0].status is None:  # what hangs takes too long to shorten
        return operations, last[0]
    seconds = 10 + 3 * (time.monotonic() - begin)

    def fails(fewer: tuple[Operation, ...]) -> bool:
        if time.monotonic() > end:
            return False
        ending = servers.execute(fewer, seed, seconds)
        same = ending.failed and ending.status == last[0].status
        if same:
            last[0] = ending
        return same

    return shrink(operations, fails), last[0]


def report(servers: Servers, name: str, seed: int, ending: Ending, shrinking: bool) -> None:
    operations = generate(seed)
    path = store(name, seed, operations, ending)
    print(f"seed {seed} ended with {ending.status}: {path}", flush=True)
    if not shrinking:
        print(ending.output[-3000:], flush=True)
        return
    operations, again = shorten(servers, seed, operations)
    if again.failed:
        store(name, seed, operations, again)
        names = " ".join(operation.name for operation in operations)
        print(f"  shortened to {count(operations)}: {names}\n{again.output[-2000:]}", flush=True)
    else:
        print("  did not fail again", flush=True)


def replay(python: Path, path: Path) -> None:
    data = json.loads(path.read_text())
    operations = tuple(map(Operation.from_json, data["operations"]))
    servers = Servers(python)
    ending = servers.execute(operations, data["seed"])
    servers.end()
    print(f"{ending.output}\nexit status {ending.status}")
    print("in one process:", *words_of(setting_of(data["seed"]), python), path)
    sys.exit(1 if ending.failed else 0)


def run_cases(python: Path, tally: Tally, first: int, end: float, shrinking: bool) -> None:
    """Seeds from `first` on, until `end` by the monotonic clock."""
    servers = Servers(python)
    for seed in itertools.count(first):
        if time.monotonic() >= end:
            break
        operations = generate(seed)
        ending = servers.execute(operations, seed)
        tally.add(seed, count(operations), ending.failed, ending.cpu_seconds)
        if ending.failed:
            report(servers, tally.name, seed, ending, shrinking)
    servers.end()


@click.command(help=__doc__)
@click.option("--minutes", type=float, default=1.0, show_default=True)
@click.option("--python", "named", help="3.12 for its check build, or a path; this one otherwise.")
@click.option("--seed", type=int, help="The first seed; otherwise the one after the last run.")
@click.option("--shrink/--no-shrink", "shrinking", default=True, help="Shorten what fails.")
@click.option("--results", type=Path, help="Statistics go here instead.")
@click.option("--replay", "replayed", type=Path, help="Run one stored failure.")
def main(
    minutes: float,
    named: str | None,
    seed: int | None,
    shrinking: bool,
    results: Path | None,
    replayed: Path | None,
) -> None:
    python = find_python(named)
    if not python.exists():
        raise click.ClickException(f"{python} is not there: make {python.parent.parent}/.stamp")
    if replayed is not None:
        replay(python, replayed)
    RESULTS.mkdir(parents=True, exist_ok=True)
    tally = Tally(name_of(python), results or RESULTS / f"{name_of(python)}.json")
    before = dict(tally.counts)
    end = time.monotonic() + 60 * minutes
    first = int(before["next_seed"]) if seed is None else seed
    run_cases(python, tally, first, end, shrinking)
    print(tally.text(), flush=True)
    has_failed = tally.counts["failures"] > before["failures"]
    sys.exit(1 if has_failed or tally.counts["cases"] == before["cases"] else 0)


if __name__ == "__main__":
    main()
