"""What reforks save on the bundled site without a warm-up list, and what they cost its users.

memory: `stock`, `seal` with a complete warm-up list and `refork` with none, until each worker
has served 1,000 requests. service: 20,000 requests through at least five generations; each
has to be answered, served once, and answered as stock answers it; latencies inside of rollouts
are compared with those outside. asgi: `refork_asgi`.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks import refork_asgi
from benchmarks.site import DATA, SITE, make_plan
from matrix.herd import AT_ANY_PRICE, Herd, Load, Sent
from pasture_tools.display import progress
from pasture_tools.display.terminal import output_terminal
from pasture_tools.trial import TrialResult, run_trial, table
from pasture_tools.trial.measurement import percentile

DIRECTORY = DATA.parent / "bench-refork"
LIMITS = "50,200,500,600,700,800,900"
POLICIES = ("stock", "seal", "refork")
WORKERS = CLIENTS = 4
MIN_GENERATIONS = 5
GOAL_STOCK, GOAL_SEAL, GOAL_P99 = 0.5, 1.05, 1.5
BEGIN_S = 1.0
"""Before the log says that a rollout has started: the spare worker is forked, memory measured."""

_BEGINS, _ENDS = "is to become the mold", "all workers are of generation"

Window = tuple[float, float]


def memory(requests: int, rounds: int) -> dict[str, Any]:
    """Total PSS under each policy, and the two ratios that matter."""
    with progress.for_console(Console(stderr=True)) as display:
        plan = make_plan(requests, WORKERS, rounds, POLICIES, DIRECTORY / "logs")
        result = run_trial(plan, on_event=display.show)
    table.print_result(result, output_terminal())
    total = {name: total_pss(result, name) for name in POLICIES}
    ratios = {name: total["refork"] / total[name] for name in ("stock", "seal")}
    click.echo(
        f"total PSS with refork: {ratios['stock']:.3f} of stock (goal {GOAL_STOCK}), "
        f"{ratios['seal']:.3f} of seal with a complete warm-up list (goal {GOAL_SEAL})"
    )
    return {"total_pss_bytes": total, "ratios": ratios, "answers_agree": result.answers_agree}


def total_pss(result: TrialResult, name: str) -> float:
    policy = next(p for p in result.policies if p.policy == name)
    return policy.median(lambda run: run.total_pss_bytes)


def serve(words: Sequence[str], name: str, requests: int) -> tuple[Herd, list[Sent], list[Window]]:
    """Load one server; returns what was sent, and when rollouts were under way."""
    plan = make_plan(requests, WORKERS, 1, POLICIES, DIRECTORY / "logs")
    access = DIRECTORY / f"access-{name}.log"
    access.unlink(missing_ok=True)
    gunicorn = ["gunicorn", "-w", f"{WORKERS}", "--access-logfile", f"{access}"]
    gunicorn += ["--access-logformat", "%({x-request-id}i)s", plan.app]
    env = {**plan.env, "PYTHONPATH": f"{AT_ANY_PRICE}"}
    with Herd([*words, *gunicorn], directory=DIRECTORY, cwd=SITE, env=env) as herd:
        herd.wait_until_it_listens()
        load = Load(herd.port, plan.urls, dict(plan.headers), clients=CLIENTS, requests=requests)
        with load.running():
            windows = list(watch(herd, load))
        herd.stop()
    return herd, load.sent, windows


def watch(herd: Herd, load: Load) -> Iterator[Window]:
    """Begin and end of each rollout, as the log says, by our clock."""
    began: float | None = None
    seen = 0
    while True:
        over, now, lines = load.is_over, time.monotonic(), herd.log.splitlines()
        for line in lines[seen:]:
            if _BEGINS in line:
                began = now - BEGIN_S
            elif _ENDS in line and began is not None:
                yield began, now
                began = None
        seen = len(lines)
        if over:
            if began is not None:
                yield began, now
            return
        time.sleep(0.05)


def p99_ms(sent: Sequence[Sent]) -> float:
    return 1000 * percentile(sorted(s.seconds for s in sent), 0.99)


def is_inside(sent: Sent, windows: Sequence[Window]) -> bool:
    return any(
        begin <= sent.started + sent.seconds and sent.started <= end for begin, end in windows
    )


def service(requests: int) -> dict[str, Any]:
    """20,000 requests: answered, once, equal; and the p99 inside and outside of rollouts."""
    _, expected, _ = serve(["--policy", "stock"], "stock", max(600, requests // 20))
    herd, sent, windows = serve(["--refork", LIMITS], "refork", requests)
    numbers = Counter((DIRECTORY / "access-refork.log").read_text().split())
    served = Counter({n: c for n, c in numbers.items() if n.isdecimal()})
    inside = [s for s in sent if is_inside(s, windows)]
    outside = [s for s in sent if not is_inside(s, windows)]
    found = {
        "requests": len(sent),
        "generations": max(map(int, re.findall(rf"{_ENDS} (\d+)", herd.log)), default=0),
        "unanswered": sum(s.status == 0 for s in sent),
        "server_errors": sum(s.status >= 500 for s in sent),
        "served_twice": sum(count > 1 for count in served.values()),
        "not_served": requests - len(served),
        "different": differing(expected, sent),
        "inside": len(inside),
        "p99_inside_ms": p99_ms(inside),
        "p99_outside_ms": p99_ms(outside),
    }
    click.echo(json.dumps(found))
    ratio = found["p99_inside_ms"] / found["p99_outside_ms"]
    click.echo(
        f"{len(sent)} requests through {found['generations']} generations "
        f"(goal {MIN_GENERATIONS}); p99 during a refork {ratio:.2f} of p99 outside "
        f"(goal {GOAL_P99})"
    )
    return found


def differing(expected: Sequence[Sent], found: Sequence[Sent]) -> int:
    """Answers that stock never gave: another status, or another body of a page that is
    always the same under stock."""
    bodies: dict[str, Counter[tuple[int, str]]] = {}
    for sent in expected:
        bodies.setdefault(sent.what, Counter())[sent.status, sent.body] += 1
    wrong = 0
    for sent in found:
        known = bodies.get(sent.what, Counter())
        statuses = {status for status, _ in known}
        steady = len(known) == 1 and known.total() > 1
        wrong += sent.status not in statuses or (steady and (sent.status, sent.body) not in known)
    return wrong


@click.command(help=__doc__)
@click.option("--part", type=click.Choice(["memory", "service", "asgi", "all"]), default="all")
@click.option("--memory-requests", default=4400, show_default=True)
@click.option("--requests", default=20_000, show_default=True, help="Of the service part.")
@click.option("--rounds", default=1, show_default=True, help="Of the parts memory and asgi.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All figures.")
def main(
    part: str, memory_requests: int, requests: int, rounds: int, json_file: Path | None
) -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    if part in ("memory", "all"):
        found["memory"] = memory(memory_requests, rounds)
    if part in ("service", "all"):
        found["service"] = service(requests)
    if part in ("asgi", "all"):
        found["asgi"] = refork_asgi.compare(WORKERS, rounds)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
