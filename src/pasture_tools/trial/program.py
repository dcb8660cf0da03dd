"""`pasture try -- python train.py`: a program that forks workers and serves no requests.

Owns the runs of such a program and the table. The program runs as it is and by `pasture run`; its
workers are the processes that it forks. The figures of a run are those of the moment at which all
its processes together took most.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from pasture.errors import NotMeasurable, PastureError, UsageError
from pasture.log_lines import NO_SEAL, PREFIX, find
from pasture.proc.tree import processor_s
from pasture.sealing.policy import DEFAULT_POLICY, POLICIES
from pasture.serving.starter import is_python
from pasture.trust import private_files
from pasture_tools.display.progress import Finished, OnEvent, Started
from pasture_tools.display.units import count, megabytes, percent, seconds
from pasture_tools.launch.session import Group, guarded, pausing
from pasture_tools.proc.sampler import Sample, Series, sample_tree
from pasture_tools.trial.measurement import median_private_bytes

POLICIES_OF_PROGRAMS = ("stock", "seal")

_POLL_S = 0.05
_STOCK = "stock"
_MAX_PART = 0.99  # a larger part of stock's memory is noise
_NOT_SEALED = re.compile(rf"^{PREFIX}(policy .*: not sealed.*|not sealed.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """The program to run, and how often."""

    command: tuple[str, ...]  # python and its arguments
    policies: tuple[str, ...] = POLICIES_OF_PROGRAMS
    rounds: int = 1
    figure: re.Pattern[str] | None = None  # its first group is a number that the program prints
    env: Mapping[str, str]  # added to the program's
    log_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of the program, from its start to its end."""

    policy: str
    round: int
    seconds: float
    processor_s: float  # processor time of all its processes
    workers: int  # at the moment that counts
    private_bytes: int  # the median worker's
    total_pss_bytes: int
    figure: float | None  # the last number that it printed
    note: str = ""  # why it was not sealed


def is_program(app: str) -> bool:
    """Whether `try` was given a command instead of an application."""
    return is_python(Path(app).name)


def run_program(plan: ProgramPlan, emit: OnEvent, stop: threading.Event) -> list[ProgramRun]:
    """Run the program under each policy, in rounds that turn the order around.

    Raises:
        NotMeasurable: no worker or no figure was seen.
        ServerFailed: the program cannot be run or fails.
        KeyboardInterrupt: `stop` was set; no process is left.
    """
    found = []
    with private_files.temporary_folder("pasture-try-") as folder, guarded(folder):
        for number in range(plan.rounds):
            for policy in plan.policies[:: 1 if number % 2 == 0 else -1]:
                label = f"{policy}, round {number + 1} of {plan.rounds}"
                emit(Started(label, None))
                log = (plan.log_dir or folder) / f"{policy}-{number}.log"
                found.append(_run(plan, policy, number, log, pausing(stop)))
                emit(Finished(label, seconds(found[-1].seconds)))
    return found


def _run(
    plan: ProgramPlan, policy: str, number: int, log: Path, pause: Callable[[float], object]
) -> ProgramRun:
    command = plan.command
    if os.sep not in command[0]:  # as `pasture run` does
        command = (sys.executable, *command[1:])
    if policy != _STOCK:
        command = (sys.executable, "-m", "pasture", "run", "--policy", policy, "--", *plan.command)
    began = time.monotonic()
    used_s, series = 0.0, Series()
    most: Sample | None = None
    with Group(command, log=log, env={**os.environ, **plan.env}) as group:
        while (code := group.exit_code()) is None:
            elapsed_s = time.monotonic() - began
            used_s = max(used_s, processor_s(group.pid))
            if series.is_due(elapsed_s):
                sample = _sample(group.pid, elapsed_s, series)
                if sample is not None and (
                    most is None or sample.total_pss_bytes > most.total_pss_bytes
                ):
                    most = sample
            pause(_POLL_S)
        elapsed_s = time.monotonic() - began
        if code != 0:
            raise group.failure(f"{policy}: the program ended with exit code {code}")
        text = group.log
    refused = find(NO_SEAL, text)
    not_sealed = _NOT_SEALED.search(text)
    why_not_sealed = NO_SEAL % refused[0] if refused else not_sealed[1] if not_sealed else ""
    if most is None:
        raise NotMeasurable(
            f"{policy}: no worker of {' '.join(plan.command)} was seen",
            hint="the program itself must fork its workers, and they must live for half a second; "
            "the start methods spawn and forkserver share nothing",
        )
    return ProgramRun(
        policy,
        number,
        elapsed_s,
        used_s,
        len(most.workers),
        median_private_bytes(most),
        most.total_pss_bytes,
        _figure(plan, policy, text),
        why_not_sealed if policy != _STOCK else "",
    )


def _sample(pid: int, elapsed_s: float, series: Series) -> Sample | None:
    """A sample with workers; None without workers, or if one ended meanwhile."""
    began = time.monotonic()
    try:
        sample = sample_tree(pid, elapsed_s)
    except PastureError:  # it is about to end
        return None
    if sample is None or not sample.workers:
        return None
    series.add(sample, time.monotonic() - began)
    return sample


def _figure(plan: ProgramPlan, policy: str, text: str) -> float | None:
    if plan.figure is None:
        return None
    values = [match[1] for match in plan.figure.finditer(text)]
    try:
        return float(values[-1].replace(",", ""))
    except (IndexError, ValueError):
        raise NotMeasurable(
            f"{policy}: the program printed no number for {plan.figure.pattern!r}",
            hint="the first group of --figure is the number, as in 'items/s: ([0-9.]+)'",
        ) from None


def plan_of(
    command: Sequence[str], *, policies: Sequence[str], figure: str | None, **same: Any
) -> ProgramPlan:
    """The plan of a command line.

    Raises:
        UsageError: the regular expression is wrong or has no group, or a policy cannot be compared
        here.
    """
    for policy in policies:
        if policy in POLICIES and POLICIES[policy].refork:
            raise UsageError(
                f"the policy {policy} is for servers", hint="stock, freeze or seal for a program"
            )
    try:
        pattern = None if figure is None else re.compile(figure)
    except re.error as error:
        raise UsageError(f"--figure is not a regular expression: {error}") from None
    if pattern is not None and not pattern.groups:
        raise UsageError(
            "--figure has no group", hint="put parentheses around the number: 'items/s: ([0-9.]+)'"
        )
    chosen = tuple(policies) or POLICIES_OF_PROGRAMS
    return ProgramPlan(command=tuple(command), policies=chosen, figure=pattern, **same)


def as_document(plan: ProgramPlan, runs: Sequence[ProgramRun]) -> dict[str, Any]:
    """All figures, ready for JSON."""
    return {"schema": 1, "command": list(plan.command), "runs": [asdict(run) for run in runs]}


def table_of(plan: ProgramPlan, runs: Sequence[ProgramRun]) -> Table:
    """A table with a row for each policy: medians over the rounds."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("\npolicy")
    for heading in ("private\na worker", "total\nPSS", "\nsaved", "", "\nprocessor", "\ntime"):
        table.add_column(heading, justify="right")
    if plan.figure is not None:
        table.add_column("\nfigure", justify="right")
    first = _median(runs, plan.policies[0], "total_pss_bytes")
    for policy in plan.policies:
        saved = first - _median(runs, policy, "total_pss_bytes")
        is_first = policy == plan.policies[0]
        cells = [
            policy,
            megabytes(_median(runs, policy, "private_bytes")),
            megabytes(_median(runs, policy, "total_pss_bytes")),
            *(("", "") if is_first else (megabytes(saved), percent(saved / first))),
            seconds(_median(runs, policy, "processor_s")),
            seconds(_median(runs, policy, "seconds")),
        ]
        if plan.figure is not None:
            cells.append(f"{_median(runs, policy, 'figure'):,.6g}")
        table.add_row(*cells)
    return table


def remarks_on(plan: ProgramPlan, runs: Sequence[ProgramRun]) -> Iterator[str]:
    """Sentences for below the table; the last is the command to use."""
    workers = {run.policy: run.workers for run in runs}
    if len(set(workers.values())) == 1:
        number = next(iter(workers.values()))
        yield f"Memory of {count(number, 'worker')}, at the peak of all processes together."
    else:
        each = ", ".join(f"{policy} {number}" for policy, number in workers.items())
        yield f"The number of workers at the peak of memory differs: {each}."
    yield from dict.fromkeys(f"{run.policy}: {run.note}" for run in runs if run.note)
    took = {
        policy: _median(runs, policy, "total_pss_bytes")
        for policy in plan.policies
        if not any(run.note for run in runs if run.policy == policy)
    }
    best = min(took, key=took.__getitem__, default=_STOCK)
    if best != _STOCK and took[best] < _MAX_PART * took.get(_STOCK, math.inf):
        name = () if best == DEFAULT_POLICY else ("--policy", best)
        yield f"next: {shlex.join(('pasture', 'run', *name, '--', *plan.command))}"


def _median(runs: Sequence[ProgramRun], policy: str, name: str) -> float:
    return float(statistics.median(getattr(run, name) for run in runs if run.policy == policy))
