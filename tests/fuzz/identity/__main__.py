"""Random programs, plain and in each way in which pasture runs them: are they the same programs?

    make fuzz-identity ARGS="--programs 1000"

Goes on where it stopped (`var/fuzz-identity/3.X.json`). A program is made from its number alone.
What differs counts if it differs three times in a row. Exits with 1 if anything has.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from alike import Outcome, differences, documented
from generator import Program, program
from ways import HANGS, MODES, build_image, fits, outcome

STATE = (
    Path(__file__).resolve().parents[3]
    / "var"
    / "fuzz-identity"
    / f"{sys.version_info[0]}.{sys.version_info[1]}.json"
)
TRIES = 3


@dataclass(frozen=True)
class Bench:
    """Where programs are run: a folder of their own, and an image."""

    folder: Path
    image: Path
    environ: dict[str, str]

    def ends(self, mode: str, one: Program) -> tuple[Outcome, Outcome]:
        """Of two runs."""
        words = mode, one, self.environ, self.image, self.folder
        return outcome(*words), outcome(*words)

    def found(self, number: int, modes: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Each mode that a program fits, and what differs in it, in all of some tries."""
        one = program(number, self.folder)
        first = self.ends("plain", one)
        if max(end.status for end in first) >= HANGS:
            return
        for mode in modes:
            if fits(mode, one):
                kept = self.new(mode, one, first)
                for _ in range(TRIES - 1):
                    again = kept and self.new(mode, one, self.ends("plain", one))
                    kept = {name: how for name, how in kept.items() if name in again}
                yield mode, kept

    def new(self, mode: str, one: Program, plain: tuple[Outcome, Outcome]) -> dict[str, str]:
        found = differences(plain, self.ends(mode, one))
        return {name: how for name, how in found if not documented(name, mode.startswith("image"))}


@contextmanager
def opened() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="identity-") as name:
        home = Path(name)
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": name, "LANG": "C.UTF-8"}
        build_image(home / "app.img", environ)
        yield Bench(home / "work", home / "app.img", environ)


@click.command(help=__doc__)
@click.option("--programs", default=100, show_default=True, help="More than were run before.")
@click.option("--first", type=int, help="Number of the first one; nothing is kept.")
@click.option("--mode", "modes", type=click.Choice(MODES[1:]), multiple=True)
@click.option("--show", is_flag=True, help="Print the source of each program.")
def main(programs: int, first: int | None, modes: Sequence[str], show: bool) -> None:
    state = {"next": 0, "differ": {}, "runs": {}}
    if first is None and STATE.exists():
        state = json.loads(STATE.read_text())
    begin = state["next"] if first is None else first
    runs, differ = Counter(state["runs"]), 0
    with opened() as bench:
        for number in range(begin, begin + programs):
            one = program(number, bench.folder)
            if show:
                print(one.source[one.source.index("SUBJECT_ZERO =") :], one, sep="\n")
            for mode, found in bench.found(number, modes or MODES[1:]):
                runs[mode] += 1
                differ += bool(found)
                if found:
                    state["differ"][f"{number} {mode}"] = sorted(found)
                for name, how in found.items():
                    print(f"{number} {mode}: {name}: {how}", flush=True)
            if first is None:
                state |= {"next": number + 1, "runs": dict(runs)}
                STATE.parent.mkdir(parents=True, exist_ok=True)
                STATE.write_text(json.dumps(state, indent=1))
    counts = ", ".join(f"{mode} {count:,}" for mode, count in runs.items())
    print(f"{programs} programs: {differ} differ; runs compared: {counts}")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
