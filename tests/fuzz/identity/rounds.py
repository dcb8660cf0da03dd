"""Programs by number, compared in rounds, and a file that says where the next run goes on.

Shared by `make fuzz-identity` and `make fuzz-servers`. What differs counts if it differs in each of
some tries.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from alike import Outcome, differences

STATES = Path(__file__).resolve().parents[3] / "var"
TRIES = 3
NOTHING = Outcome(0, {}, {})
HANGS = 1000
"""In place of a status: it does not end."""

Found = Iterator[tuple[str, dict[str, str]]]
"""Modes, and what differs in each."""


def found(
    run: Callable[[str], Outcome],
    modes: Sequence[str],
    documented: Callable[[str, str], bool],
    quick: bool = False,
) -> Found:
    """Run a program twice plain and twice in each mode, quickly once; again where it differs."""
    first = run("plain"), run("plain")
    if max(end.status for end in first) >= HANGS:
        return
    for mode in modes:
        plain, kept = first, None
        for each in range(TRIES):
            again = run(mode) if each or not quick else NOTHING
            new = dict(differences(plain, (run(mode), again)))
            new = {name: how for name, how in new.items() if not documented(name, mode)}
            kept = new if kept is None else {n: how for n, how in kept.items() if n in new}
            if not kept:
                break
            plain = run("plain"), run("plain")
        yield mode, kept or {}


def rounds(
    name: str, programs: int, first: int | None, compared: Callable[[int], Found], minutes: float
) -> bool:
    """Compare some programs more than before, or from a number on; whether all are the same."""
    file = STATES / name / f"{sys.version_info[0]}.{sys.version_info[1]}.json"
    state = {"next": 0, "differ": {}, "runs": {}}
    if first is None and file.exists():
        state = json.loads(file.read_text())
    begin = state["next"] if first is None else first
    runs, differ, done = Counter(state["runs"]), 0, 0
    end = time.monotonic() + 60 * minutes
    while done < programs and time.monotonic() < end:
        number = begin + done
        for mode, how in compared(number):
            runs[mode] += 1
            differ += bool(how)
            if how:
                state["differ"][f"{number} {mode}"] = sorted(how)
            for what, values in how.items():
                print(f"{number} {mode}: {what}: {values}", flush=True)
        done += 1
        if first is None:
            state |= {"next": number + 1, "runs": dict(runs)}
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(state, indent=1))
    counts = ", ".join(f"{mode} {count:,}" for mode, count in runs.items())
    print(f"{done} programs: {differ} differ; runs compared: {counts}")
    return not differ
