"""The JSON document of a trial, schema 1.

Stable: keys are added, never renamed or given another meaning; `trial.schema.json` next to this
file describes them for programs, docs/try.md for people. Sizes are bytes, times seconds, latencies
milliseconds. Values of headers are left out, since they hold sessions and tokens.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from pasture_tools.proc.sampler import ProcessMemory
from pasture_tools.trial.figures import FIGURES, LATENCIES, TOTAL
from pasture_tools.trial.measurement import (
    PolicyResult,
    TrialResult,
    paired_ratios,
    private_saving,
    total_pss_saving,
    workers_that_fit,
)
from pasture_tools.trial.plan import TrialPlan

SCHEMA = 1
SCHEMA_FILE = Path(__file__).with_name("trial.schema.json")


def as_document(result: TrialResult) -> dict[str, Any]:
    """The document as plain values that JSON knows."""
    return {
        "schema": SCHEMA,
        "interpreter": dict(result.interpreter),
        "machine": dict(result.machine),
        "load": {**load_of(result.plan), "urls": list(result.reference.typical.paths)},
        "reference": result.reference.policy,
        "answers_agree": result.answers_agree,
        "bodies_compared": result.bodies.whole,
        "bodies_compared_by_structure": result.bodies.by_structure,
        "bodies_not_compared": result.bodies.not_at_all,
        "notes": list(result.notes),
        "interrupted": result.interrupted,
        "failures": [
            {"policy": f.policy, "round": f.round, "error": f.error.message}
            for f in result.failures
        ],
        "impossible": result.plan.impossible,
        "policies": {p.policy: _policy(result.reference, p) for p in result.policies},
    }


def load_of(plan: TrialPlan) -> dict[str, Any]:
    """The part of a plan's load that is known before a run."""
    return {
        "app": plan.app,
        "server": plan.server,
        "workers": plan.workers,
        "requests": plan.requests,
        "concurrency": plan.users,
        "rounds": plan.rounds,
        "headers": [name for name, _ in plan.headers],
        "warm": None if plan.warm is None else [str(request) for request in plan.warm],
        "server_args": list(plan.server_args),
    }


def _policy(reference: PolicyResult, policy: PolicyResult) -> dict[str, Any]:
    typical = policy.typical
    total, private = total_pss_saving(reference, policy), private_saving(reference, policy)
    budget = reference.median(TOTAL)
    return {
        "workers": [_process(worker) for worker in typical.final.workers],
        "parent": _process(typical.final.master),
        **_medians(policy),
        "answers_agree": not policy.disagreements,
        "disagreements": [
            {"url": d.url, "what": d.what, "expected": d.expected, "found": d.found}
            for d in policy.disagreements
        ],
        "failures": sum(run.load.failures for run in policy.runs),
        "timeouts": policy.timeouts,
        "shortfalls": list(policy.shortfalls),
        "saving": {
            "total_pss_bytes": total.saved_bytes,
            "total_pss_fraction": total.fraction,
            "private_bytes": private.saved_bytes,
            "private_fraction": private.fraction,
        },
        "against_reference": _paired(reference, policy),
        "workers_that_fit": workers_that_fit(budget, policy),
        "worst_moments": [
            {"private_bytes": round(m.private_bytes), "parent_bytes": round(m.parent_bytes)}
            for m in policy.worst_moments
        ],
        "shutdown_by_itself": all(run.shutdown.by_itself for run in policy.runs),
        "seal_report": None if typical.report is None else dict(typical.report),
        "series": [
            {
                "seconds": round(sample.seconds, 3),
                "requests": sample.requests,
                "total_pss_bytes": sample.total_pss_bytes,
                "workers": [_process(worker) for worker in sample.workers],
            }
            for sample in typical.series
        ],
        "rounds": [_medians(PolicyResult(policy.policy, (run,))) for run in policy.runs],
    }


def _paired(reference: PolicyResult, policy: PolicyResult) -> dict[str, Any]:
    """Each figure as a multiple of the reference's, round by round."""
    paired = {}
    for figure in (*FIGURES, *LATENCIES.values()):
        ratios = paired_ratios(reference, policy, figure)
        if ratios:
            values = (statistics.median(ratios), ratios[0], ratios[-1])
            paired[figure.key] = dict(zip(("median", "least", "greatest"), values, strict=True))
    return paired


def _medians(policy: PolicyResult) -> dict[str, Any]:
    return {
        **{figure.key: figure.rounded(policy) for figure in FIGURES},
        "latency_ms": {key: figure.rounded(policy) for key, figure in LATENCIES.items()},
    }


def _process(process: ProcessMemory) -> dict[str, int]:
    memory = process.memory
    return {
        "pid": process.pid,
        "private_bytes": memory.private_bytes,
        "private_dirty_bytes": memory.private_dirty_bytes,
        "pss_bytes": memory.pss_bytes,
        "shared_bytes": memory.shared_bytes,
        "rss_bytes": memory.rss_bytes,
    }
