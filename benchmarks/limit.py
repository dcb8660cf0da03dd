"""The workers that `pasture size` counts after a trial, started under its limit and loaded.

For each policy: a trial counts the workers. They are started in a control group with the limit,
loaded for minutes, and stopped; under `refork` they have a few generations meanwhile. Nothing may
be killed and each request has an answer. Then more and more workers are started, until the kernel
kills one: how far the count was from that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console

from benchmarks.site import DATA, SITE, make_plan
from matrix.herd import Herd, Load
from pasture.proc.cgroup import read_usage
from pasture.serving.settings import to_environment
from pasture.sizing import SPARE, parse_bytes, workers_in
from pasture_lab.processes.cgroup import MemoryGroup, memory_group
from pasture_tools.display import progress
from pasture_tools.display.terminal import output_terminal
from pasture_tools.launch.ports import listens
from pasture_tools.trial import TrialPlan, run_trial, table

DIRECTORY = DATA.parent / "limit"
CLIENTS = 4
TRIAL_WORKERS = 4
SEARCH_S = 60.0
SEARCH_STEP = 0.1
BETWEEN_S = 0.25
START_S, STOP_S = 240.0, 90.0
REFORKS = "50,500,2000"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """A server that ran under the limit."""

    policy: str
    workers: int
    seconds: float  # of load
    requests: int
    unanswered: int  # or with an error of the server
    reforks: int
    highest_bytes: int  # of the group without pages of files, from the boot to the end
    kills: int  # by the kernel, for the limit
    started: bool  # with all of its workers
    stopped: bool  # by itself, with status 0


class Watch:
    """The most memory of a group without pages of files, and whether the kernel killed in it."""

    def __init__(self, herd: Herd, group: MemoryGroup) -> None:
        self.highest_bytes = 0
        self._herd, self._group = herd, group

    def kills(self) -> int:
        """Looks at the memory, too."""
        usage = read_usage(self._herd.pid)
        if usage is not None:
            files = usage.idle_file_bytes + usage.active_file_bytes
            self.highest_bytes = max(self.highest_bytes, usage.used_bytes - files)
        return self._group.kills()

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds; False if the kernel killed before, or the time is over."""
        end = time.monotonic() + timeout_s
        while not condition():
            if self.kills() or time.monotonic() > end:
                return False
            time.sleep(BETWEEN_S)
        return not self.kills()


def serve(plan: TrialPlan, limit: int, policy: str, workers: int, seconds: float) -> Outcome:
    """Start, load and stop a server in a group of its own."""
    words = ["gunicorn", "-w", str(workers), plan.app]
    if policy == "refork":
        words = ["--refork", REFORKS, *words]
    variables = to_environment(
        policy=policy,
        warm=tuple((DATA / "headers.txt").read_text().splitlines()),
        warm_file=DATA / "urls.txt",
    )
    with memory_group() as group:
        group.limit(limit)
        env = {**plan.env, **(variables if policy != "refork" else {})}
        with Herd(words, directory=DIRECTORY, cwd=SITE, env=env, prefix=group.prefix) as herd:
            watch = Watch(herd, group)
            load = Load(herd.port, plan.urls, dict(plan.headers), clients=CLIENTS, requests=None)
            all_there = watch.until(
                lambda: listens(herd.port) and len(herd.pids("worker")) >= workers, START_S
            )
            begin = time.monotonic()
            if all_there:
                with load.running():
                    watch.until(lambda: time.monotonic() - begin > seconds, seconds + START_S)
            took = time.monotonic() - begin
            reforks = herd.log.count("all workers are of generation")
            herd.terminate()
            watch.until(lambda: herd.exit_code() is not None, STOP_S)
            bad = sum(sent.status == 0 or sent.status >= 500 for sent in load.sent)
            return Outcome(
                policy, workers, took, len(load.sent), bad, reforks, watch.highest_bytes,
                watch.kills(), all_there, herd.exit_code() == 0,
            )  # fmt: skip


def first_that_is_killed(
    plan: TrialPlan, limit: int, policy: str, counted: int
) -> Iterator[Outcome]:
    """Servers of more and more workers, up to the first of which a process is killed."""
    workers = counted
    while True:
        workers += max(1, round(counted * SEARCH_STEP))
        outcome = serve(plan, limit, policy, workers, SEARCH_S)
        yield outcome
        if outcome.kills or not outcome.started:
            return


def say(outcome: Outcome) -> None:
    end = "killed by the kernel" if outcome.kills else "not killed"
    click.echo(
        f"{outcome.policy}: {outcome.workers} workers, {outcome.seconds:.0f} s, "
        f"{outcome.requests} requests, {outcome.unanswered} without an answer, "
        f"{outcome.reforks} reforks, at most {outcome.highest_bytes / MIB:.0f} MiB: {end}, "
        f"{'ended by itself' if outcome.stopped else 'did not end by itself'}"
    )


@click.command()
@click.option("--limit", default="512MiB", show_default=True)
@click.option("--minutes", default=30.0, show_default=True, help="Of load.")
@click.option("--policy", "policies", multiple=True, default=("seal", "refork"))
@click.option("--requests", default=2000, show_default=True, help="Of each run of the trial.")
@click.option("--search/--no-search", default=True, help="Find the number that is killed, too.")
def main(
    limit: str, minutes: float, policies: tuple[str, ...], requests: int, search: bool
) -> None:
    """Start the workers that a trial counts, under the limit; exit with 1 if one is killed."""
    plan = make_plan(requests, TRIAL_WORKERS, 1, policies, DIRECTORY / "logs")
    limit_bytes = parse_bytes(limit)
    with progress.for_console(Console(stderr=True)) as display:
        result = run_trial(plan, on_event=display.show)
    table.print_result(result, output_terminal())
    outcomes: list[Outcome] = []
    failed = False
    for found in result.policies:
        counted = workers_in(limit_bytes * (1 - SPARE), found.worst_moments)
        outcome = serve(plan, limit_bytes, found.policy, counted, minutes * 60)
        say(outcome)
        failed = failed or bool(outcome.kills or outcome.unanswered or not outcome.stopped)
        failed = failed or not outcome.started
        outcomes.append(outcome)
        for more in (
            first_that_is_killed(plan, limit_bytes, found.policy, counted) if search else ()
        ):
            say(more)
            outcomes.append(more)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    document = [asdict(outcome) for outcome in outcomes]
    Path(DIRECTORY / "limit.json").write_text(json.dumps(document, indent=2) + "\n")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
