"""Runs the checks one after the other and says of each what came of it.

RPython's own tests first (pypy/tests, in the root), then a check build of
pypy/programs/checked.py: the failure paths, and seeds of the stress program with
PYPY_GC_DEBUG=1, small nurseries and each knob. `--short` leaves out what translates.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pypy.bench.builds import ROOT, BuildFailed, build, root_path
from pypy.check.failures import LOCKED, REFUSALS, try_locked, try_refusal

STRESS_TIMEOUT_S = 600
SUITES = ("direct", "simulated", "compiled")

Outcome = tuple[str, str | None]


def run_suite(name: str) -> Outcome:
    done = subprocess.run(
        [ROOT, "run", "pypy", "-m", "pytest", f"tests/test_{name}.py"],
        capture_output=True,
        text=True,
    )
    output = done.stdout + done.stderr
    closing = re.findall(r"^\d+ \w+.* in [\d.]+ seconds", output, re.MULTILINE)
    counted = closing[-1] if closing else "no test was run"
    wrong = None if done.returncode == 0 else output[-4000:]
    return f"RPython's tests, {name}: {counted}", wrong


def stress_settings(seed: int) -> dict[str, str]:
    """Every nursery another size; each knob in every other seed, all four pairs of them."""
    return {
        "PYPY_GC_DEBUG": "1",
        "PYPY_GC_NURSERY": f"{48 + 16 * seed}K",
        "PASTURE_GC_KEEP_INHERITED": str(seed & 1),
        "PASTURE_GC_FILL_SHARED": str(seed >> 1 & 1),
    }


def run_stress(program: Path, seed: int, steps: int) -> Outcome:
    done = subprocess.run(
        [program, "stress", str(seed), str(steps)],
        env=os.environ | stress_settings(seed),
        capture_output=True,
        text=True,
        timeout=STRESS_TIMEOUT_S,
    )
    words = done.stdout.split()
    if done.returncode == 0 and words[:1] == ["ok"]:
        return f"stress, seed {seed}: {words[2]} slots verified, {words[3]} children", None
    return f"stress, seed {seed}", f"ended with {done.returncode}: {done.stderr[-2000:]}"


def outcomes(short: bool, seeds: int, steps: int) -> Iterator[Outcome]:
    for name in SUITES[:1] if short else SUITES:
        yield run_suite(name)
    if short:
        return
    program = build("ours", "checked", check=True)
    for refusal in REFUSALS:
        yield f"refused: {refusal.name}", try_refusal(program, refusal)
    for when in LOCKED:
        yield f"mlockall {when}", try_locked(program, when)
    for seed in range(1, seeds + 1):
        yield run_stress(program, seed, steps)


@click.command()
@click.option("--short", is_flag=True, help="No translation: two minutes.")
@click.option("--seeds", default=20, show_default=True, help="Of the stress program.")
@click.option("--steps", default=3000, show_default=True, help="Of each seed.")
def main(short: bool, seeds: int, steps: int) -> None:
    failed = passed = 0
    try:
        root_path()
        for what, wrong in outcomes(short, seeds, steps):
            print(f"{'FAILED' if wrong else 'ok':<7} {what}", flush=True)
            if wrong:
                failed += 1
                print(wrong, flush=True)
            else:
                passed += 1
    except BuildFailed as error:
        print(error)
        sys.exit(1)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
