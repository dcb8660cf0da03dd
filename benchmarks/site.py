"""What the seal saves on the bundled site, against stock and the best published recipe.

Every round runs each policy once under gunicorn with the same load, in turned-around
order. Ratios are formed within a round. The document is that of `pasture try`, with the
ratios added; benchmarks/README.md says how to read them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.spread import Spread, spread_of
from pasture.warmup.requests import read_requests
from pasture_tools.display import progress
from pasture_tools.display.terminal import output_terminal
from pasture_tools.trial import TrialPlan, TrialResult, run_trial, table
from pasture_tools.trial.document import as_document
from pasture_tools.trial.figures import P99, PRIVATE, PROCESSOR, REQUESTS, Figure
from pasture_tools.trial.measurement import paired_ratios

SITE = Path(__file__).resolve().parent.parent / "demo"
DATA = Path(__file__).resolve().parent.parent / "var" / "bench-site"
PROGRAMS = Path(__file__).resolve().parent / "programs"
POLICIES = ("stock", "freeze", "warm-freeze", "seal")


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of the seal, as a multiple of another policy's of the same round.

    Attributes:
        limit: that the median must not pass: an upper one, or a lower one if `at_least`.
        not_worse: the goal is a ratio of 1 between two figures that may well be equal. It is
            missed where the rounds show a difference, not where chance does.
    """

    name: str
    against: str
    figure: Figure
    limit: float
    at_least: bool = False
    not_worse: bool = False

    def judge(self, ratio: Spread) -> str:
        best = ratio.surely[1 if self.at_least else 0]
        if self._reached_by(ratio.median):
            return "met"
        return "no difference" if self.not_worse and self._reached_by(best) else "MISSED"

    def _reached_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


GOALS = (
    Goal("private memory a worker", "stock", PRIVATE, 0.30),
    Goal("private memory a worker", "warm-freeze", PRIVATE, 0.60),
    Goal("requests a second", "stock", REQUESTS, 1.0, True, True),
    Goal("p99 of latency", "stock", P99, 1.0, not_worse=True),
)
TABLE_GOALS = (Goal("requests a second", "stock", REQUESTS, 1.1, True),)
"""With a table: a page of memory saved is no share of a worker then."""

SHUTDOWN_GOAL = 1.1
"""Of the peak of total PSS while the sealed server ends to its PSS before."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was measured, and the goal it had, if any."""

    name: str
    ratio: Spread
    limit: float | None = None
    judgement: str = ""


def fill_site() -> Mapping[str, str]:
    """A database and load of the benchmark's own; returns the environment that names it."""
    DATA.mkdir(parents=True, exist_ok=True)
    named = {"MEADOW_DB": str(DATA / "meadow.sqlite3")}
    command = [sys.executable, str(SITE / "manage.py"), "fill"]
    if subprocess.run(command, env={**os.environ, **named}).returncode != 0:
        raise click.ClickException("the site could not be filled")
    return named


def make_plan(
    requests: int,
    workers: int,
    rounds: int,
    policies: tuple[str, ...],
    log_dir: Path = DATA / "logs",
    table_rows: int = 0,
) -> TrialPlan:
    """Fill the site and plan its trial, with the load that was filled with it."""
    environment = dict(fill_site())
    if table_rows:
        environment |= {"TABLE_ROWS": str(table_rows), "PYTHONPATH": str(PROGRAMS)}
    walk, common = read_requests(DATA / "urls.txt"), read_requests(DATA / "headers.txt")
    return TrialPlan(
        app="site_with_table:application" if table_rows else "meadow.wsgi:application",
        policies=policies,
        workers=workers,
        requests=requests,
        urls=walk.requests,
        headers=(*walk.headers, *common.headers),
        env=environment,
        chdir=SITE,
        rounds=rounds,
        log_dir=log_dir,
    )


def verdicts(result: TrialResult, goals: tuple[Goal, ...] = GOALS) -> Iterator[Verdict]:
    by_name = {policy.policy: policy for policy in result.policies}
    seal = by_name["seal"]

    def paired(against: str, figure: Figure) -> Spread:
        return spread_of(paired_ratios(by_name[against], seal, figure))

    for goal in goals:
        if goal.against in by_name:
            ratio = paired(goal.against, goal.figure)
            name = f"{goal.name}, seal to {goal.against}"
            yield Verdict(name, ratio, goal.limit, goal.judge(ratio))
    for policy in ("stock", "warm-freeze"):
        if policy in by_name:
            cpu = paired(policy, PROCESSOR)
            yield Verdict(f"processor time a request, seal to {policy}", cpu)
    peak = spread_of(run.shutdown.peak_ratio for run in seal.runs)
    met = "met" if peak.median <= SHUTDOWN_GOAL else "MISSED"
    yield Verdict("peak of PSS at shutdown, sealed", peak, SHUTDOWN_GOAL, met)


def goals_table(found: list[Verdict]) -> Table:
    shown = Table(title="Goals", box=box.SIMPLE_HEAD)
    for heading in ("ratio, paired by round", "median (range)", "90% sure", "goal", ""):
        shown.add_column(heading, justify="left" if "ratio" in heading else "right")
    for verdict in found:
        limit = "" if verdict.limit is None else f"{verdict.limit:.2f}"
        surely = "{:.2f}-{:.2f}".format(*verdict.ratio.surely)
        shown.add_row(verdict.name, verdict.ratio.text(), surely, limit, verdict.judgement)
    return shown


def add_verdicts(document: dict[str, Any], found: list[Verdict]) -> dict[str, Any]:
    goals = {
        verdict.name: {
            **verdict.ratio.as_dict(),
            "goal": verdict.limit,
            "judgement": verdict.judgement,
        }
        for verdict in found
    }
    return {**document, "benchmark": "site", "goals": goals}


@click.command(help=__doc__)
@click.option("--requests", default=2000, show_default=True)
@click.option("--workers", default=4, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES))
@click.option("--table", "table_rows", default=0, metavar="ROWS", help="325000: 500 MB in memory.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All figures.")
def main(
    requests: int,
    workers: int,
    rounds: int,
    policies: tuple[str, ...],
    table_rows: int,
    json_file: Path | None,
) -> None:
    if policies and "seal" not in policies:
        raise click.UsageError("every ratio is one of the seal: add --policy seal")
    with progress.for_console(Console(stderr=True)) as display:
        plan = make_plan(requests, workers, rounds, policies or POLICIES, table_rows=table_rows)
        result = run_trial(plan, on_event=display.show)
    found = list(verdicts(result, TABLE_GOALS if table_rows else GOALS))
    console = output_terminal()
    table.print_result(result, console)
    console.print(goals_table(found))
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        document = add_verdicts(as_document(result), found)
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
