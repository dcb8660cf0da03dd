"""Stock, the published design and ours, taking turns; goals, a table, and JSON.

The CPU time of the first collection contains the faults that copy pages. Ratios are formed
within a round. pypy/README.md says what is measured and why.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from matrix.spread import Spread, number, paired_ratio, spread_of
from pypy.bench.builds import COLLECTORS, BuildFailed, build
from pypy.bench.experiments import (
    HeapRun,
    RequestsRun,
    WentWrong,
    run_allocation,
    run_heap,
    run_requests,
)

MB = 1e6
GOALS = {"private": 0.01, "first": 0.6, "steady": 1.03, "allocation": 1.03}


def heap_rounds(programs: dict[str, Path], megabytes: int, rounds: int) -> dict[str, list[HeapRun]]:
    found: dict[str, list[HeapRun]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            found[name].append(run_heap(program, megabytes, collections=5))
    return found


def ratio_to_stock(found: dict[str, list[Any]], name: str, take: Callable[[Any], float]) -> Spread:
    return paired_ratio([take(run) for run in found[name]], [take(run) for run in found["stock"]])


def heap_result(megabytes: int, found: dict[str, list[HeapRun]]) -> dict[str, Any]:
    result: dict[str, Any] = {"megabytes": megabytes}
    for name, runs in found.items():
        result[name] = {
            "runs": [asdict(run) for run in runs],
            "private_of_heap": max(run.private_bytes / run.heap_bytes for run in runs),
            "first_to_stock": ratio_to_stock(found, name, lambda run: run.first_s).as_dict(),
            "steady_to_stock": ratio_to_stock(found, name, lambda run: run.steady_s).as_dict(),
        }
    return result


def print_heap(console: Console, megabytes: int, found: dict[str, list[HeapRun]]) -> None:
    table = Table(title=f"A forked child of a heap of {megabytes} MB, full collections")
    for column in ("collector", "heap MB", "made private MB", "first ms", "to stock"):
        table.add_column(column, justify="left" if column == "collector" else "right")
    table.add_column("steady ms", justify="right")
    table.add_column("to stock", justify="right")
    for name, runs in found.items():
        table.add_row(
            name,
            number(runs[0].heap_bytes / MB),
            number(max(run.private_bytes for run in runs) / MB),
            spread_of(run.first_s for run in runs).text(1e-3),
            ratio_to_stock(found, name, lambda run: run.first_s).text(),
            spread_of(run.steady_s for run in runs).text(1e-3),
            ratio_to_stock(found, name, lambda run: run.steady_s).text(),
        )
    console.print(table)


def print_allocation(console: Console, found: dict[str, list[float]]) -> None:
    table = Table(title="A program that does little but allocate")
    for column in ("collector", "CPU ms", "to stock"):
        table.add_column(column, justify="left" if column == "collector" else "right")
    for name, times in found.items():
        table.add_row(
            name,
            spread_of(times).text(1e-3),
            ratio_to_stock(found, name, lambda time: float(time)).text(),
        )
    console.print(table)


def print_requests(console: Console, found: dict[str, RequestsRun]) -> None:
    table = Table(title="The study's workload: private + shared MB of all workers after a burst")
    table.add_column("burst", justify="right")
    for name in found:
        table.add_column(name, justify="right")
    for burst in range(len(next(iter(found.values())).bursts)):
        cells = []
        for run in found.values():
            at = run.bursts[burst]
            cells.append(f"{at.private_bytes / MB:,.0f} + {at.shared_bytes / MB:,.0f}")
        table.add_row(str(burst + 1), *cells)
    table.add_section()
    last = [run.bursts[-1].pss_bytes / MB for run in found.values()]
    table.add_row("total PSS", *(f"{pss:,.0f}" for pss in last))
    table.add_row("CPU s", *(f"{run.cpu_s:.1f}" for run in found.values()))
    console.print(table)


def judge(result: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Each goal: what it is, what was found, what it must not exceed."""
    judged = []
    for heap in result["heaps"]:
        ours = heap["ours"]
        size = f"heap of {heap['megabytes']} MB"
        judged += [
            (f"{size}: private of heap", ours["private_of_heap"], GOALS["private"]),
            (f"{size}: first to stock", ours["first_to_stock"]["median"], GOALS["first"]),
            (f"{size}: steady to stock", ours["steady_to_stock"]["median"], GOALS["steady"]),
        ]
    ratio = result["allocation"]["ours"]["to_stock"]["median"]
    return [*judged, ("allocation to stock", ratio, GOALS["allocation"])]


@click.command()
@click.option("--heap", "heaps", type=int, multiple=True, default=(50, 400), help="Megabytes.")
@click.option("--rounds", default=5, show_default=True, help="Of each, taking turns.")
@click.option("--bursts", default=10, show_default=True, help="Of 100 requests.")
@click.option("--workers", default=4, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all figures.")
def main(
    heaps: tuple[int, ...], rounds: int, bursts: int, workers: int, json_path: Path | None
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        programs = {name: build(name, "measured") for name in COLLECTORS}
        result: dict[str, Any] = {"schema": 1, "machine": platform.platform(), "heaps": []}
        for megabytes in heaps:
            found = heap_rounds(programs, megabytes, rounds)
            print_heap(console, megabytes, found)
            result["heaps"].append(heap_result(megabytes, found))
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(rounds):
            for name, program in programs.items():
                times[name].append(run_allocation(program, 20))
        print_allocation(console, times)
        result["allocation"] = {
            name: {
                "cpu_s": found_times,
                "to_stock": ratio_to_stock(times, name, lambda time: float(time)).as_dict(),
            }
            for name, found_times in times.items()
        }
        served = {
            name: run_requests(program, workers, bursts, 100) for name, program in programs.items()
        }
        kept = run_requests(programs["ours"], workers, bursts, 100, PASTURE_GC_KEEP_INHERITED="1")
        served["ours, keeping"] = kept
        print_requests(console, served)
        result["requests"] = {name: asdict(run) for name, run in served.items()}
    except (BuildFailed, WentWrong) as error:
        console.print(f"error: {error}", style="red", markup=False)
        sys.exit(1)
    missed = 0
    for what, value, limit in judge(result):
        missed += value > limit
        verdict = "met" if value <= limit else "MISSED"
        console.print(f"{verdict:<7} {what}: {value:.4g}, at most {limit}", highlight=False)
    if json_path:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
