"""One HTML file with everything in it: figures and plots.

Owns what goes into the template; the plots are in `plots`, the words in `summary`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pasture.log_lines import some
from pasture_tools.display.pages import render_page
from pasture_tools.display.units import count, megabytes, percent, seconds
from pasture_tools.trial import plots, summary
from pasture_tools.trial.command import best_command, on_reforks
from pasture_tools.trial.figures import COLUMNS, PRIVATE, TOTAL
from pasture_tools.trial.measurement import (
    PolicyResult,
    TrialResult,
    private_saving,
    workers_that_fit,
)

_MAX_URLS = 12
_NO_CHANGE = 0.005
_MORE_COLUMNS = {"memory": ("saved", ""), "server": ("answers",)}
"""Columns of a policy next to its figures."""


def render_html(result: TrialResult, made_at: datetime) -> str:
    """The page as text; values from the application are escaped."""
    colors = {p.policy: plots.color_of(p.policy, result) for p in result.policies}
    return render_page(
        Path(__file__).with_name("trial.html.j2"),
        headline=summary.headline(result),
        capacity=summary.capacity(result),
        command=best_command(result),
        on_reforks=on_reforks(result),
        spread=summary.spread(result),
        remarks=[f"{p}: {words}" for p, words in summary.beside_figures(result)]
        + summary.remarks(result),
        cards=[_card(result, p, colors[p.policy]) for p in result.policies],
        columns={
            group: [*(figure.heading for figure in columns), *_MORE_COLUMNS.get(group, ())]
            for group, columns in COLUMNS.items()
        },
        rows=[_row(result, p, colors[p.policy]) for p in result.policies],
        private=plots.over_requests(result, lambda memory: memory.private_bytes),
        shared=plots.over_requests(result, lambda memory: memory.shared_bytes),
        total=plots.total_pss(result),
        shutdown=plots.shutdown(result),
        latency=plots.latency(result),
        throughput=plots.throughput(result),
        setting=_setting(result, made_at),
        plan=result.plan,
    )


def _card(result: TrialResult, policy: PolicyResult, color: str) -> dict[str, Any]:
    """Figures in large type above the plots, for one policy."""
    saving = private_saving(result.reference, policy)
    budget = result.reference.median(TOTAL)
    return {
        "policy": policy.policy,
        "color": color,
        "private": PRIVATE.shown(policy),
        "change": "" if policy is result.reference else _change(saving.fraction),
        "total": TOTAL.shown(policy),
        "fit": f"{workers_that_fit(budget, policy):,}",
        "best": policy is summary.best(result),
    }


def _change(fraction: float) -> str:
    if abs(fraction) < _NO_CHANGE:
        return "the same"
    return f"{percent(abs(fraction))} {'less' if fraction > 0 else 'more'}"


def _row(result: TrialResult, policy: PolicyResult, color: str) -> dict[str, Any]:
    more = {
        "memory": summary.saved(result.reference, policy),
        "server": ("differ" if policy.disagreements else "agree",),
    }
    cells = [
        cell
        for group, columns in COLUMNS.items()
        for cell in (*(figure.shown(policy) for figure in columns), *more.get(group, ()))
    ]
    return {"policy": policy.policy, "color": color, "cells": cells}


def _setting(result: TrialResult, made_at: datetime) -> list[tuple[str, str]]:
    """Facts of the trial, as pairs of a term and its value."""
    plan, interpreter = result.plan, result.interpreter
    urls = result.reference.typical.paths
    return [
        ("Application", plan.app),
        ("Interpreter", f"{interpreter['implementation']} {interpreter['version']}"),
        ("Machine", interpreter["platform"]),
        ("Server", f"{plan.server}, {count(plan.workers, 'worker')}"),
        ("Load", f"{count(plan.requests, 'request')} by {count(plan.users, 'user')}"),
        ("Rounds", str(plan.rounds)),
        ("Answers", f"compared by status; {result.bodies}"),
        ("URLs", some(urls, _MAX_URLS)),
        *_seals(result),
        ("Made", made_at.strftime("%Y-%m-%d %H:%M")),
    ]


def _seals(result: TrialResult) -> list[tuple[str, str]]:
    """Each server's report of its seal, if it sealed anything."""
    said = []
    for policy in result.policies:
        report = policy.typical.report or {}
        if report.get("objects"):
            objects = count(report["objects"], "object")
            plugged, took = megabytes(report["plugged_bytes"]), seconds(report["seconds"])
            words = f"{objects} immortal, {plugged} of holes plugged, in {took}"
            said.append((f"Policy {policy.policy}", words))
    return said
