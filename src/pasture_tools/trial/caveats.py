"""Sentences about what limits the figures of a trial: pure functions of what was measured.

Shortfalls are promises of a policy that a run did not keep: a figure under the name of a policy
that did not act misleads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pasture.log_lines import NO_REFORK, NO_SEAL, REFORK_FAILED, REFORKED, find, some
from pasture.sealing.policy import Policy
from pasture_tools.display.units import count, milliseconds
from pasture_tools.proc.sampler import Sample
from pasture_tools.trial import responses
from pasture_tools.trial.measurement import PolicyResult
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.servers.facts import STOCK

_MAX_URLS = 5
_MUCH_LONGER = 2.0
_NOTICED_MS = 20.0
_DENIALS = frozenset((401, 403))


def notes_on(plan: TrialPlan, policies: tuple[PolicyResult, ...]) -> tuple[str, ...]:
    """Sentences about what limits the figures."""
    notes = []
    if plan.facts.stock and any(result.policy == STOCK for result in policies):
        notes.append(plan.facts.stock)
    notes += _without_page(plan, policies[0]) if policies else []
    reference = next((one for one in policies if one.policy == plan.reference), None)
    for result in policies:
        runs, name = result.runs, result.policy
        if any(run.final.swap_pss_bytes for run in runs):
            notes.append(f"{name}: memory was swapped out; no figure here includes it")
        if sum(run.load.failures for run in runs) > result.timeouts:
            failures = sum(run.load.failures for run in runs) - result.timeouts
            failing = responses.failing(responses.merge(run.answers for run in runs))
            notes.append(
                f"{name}: {count(failures, 'request')} failed ({some(failing, _MAX_URLS)})"
            )
        if result.timeouts:
            urls = ", ".join(responses.timed_out(responses.merge(run.answers for run in runs)))
            notes.append(
                f"{name}: {count(result.timeouts, 'request')} timed out, with no answer ({urls}) "
                f"within {plan.server_timeout_s:g} s"
            )
        notes += _slower(reference, result)
        if any(run.load.requests < plan.requests for run in runs):
            notes.append(f"{name}: the load ended before {plan.requests} requests were sent")
        if not all(run.shutdown.by_itself for run in runs):
            notes.append(f"{name}: the server did not end on SIGTERM and was killed")
        if any(len(run.final.workers) < plan.workers for run in runs):
            notes.append(f"{name}: not all workers were alive at the end")
    return tuple(notes)


def _slower(reference: PolicyResult | None, result: PolicyResult) -> list[str]:
    """A sentence for requests that wait much longer than under the reference."""
    if reference is None:
        return []
    was, now = (one.median(lambda run: run.load.p95_ms) for one in (reference, result))
    if now < _MUCH_LONGER * was or now - was < _NOTICED_MS:
        return []
    return [
        f"{result.policy}: one request in 20 waits {milliseconds(now)} ms or longer, and under "
        f"{reference.policy} {milliseconds(was)} ms"
    ]


def _without_page(plan: TrialPlan, result: PolicyResult) -> list[str]:
    """A sentence for a load that the application turns away: it then measures little."""
    answers = responses.merge(run.answers for run in result.runs)
    away = responses.without_page(answers)
    statuses = sorted({status for found in away.values() for status in found.statuses})
    if len(away) * 2 < len(answers) and not _DENIALS.intersection(statuses):
        return []
    session = (
        "has the session in the headers expired?" if plan.headers else "do they need a session?"
    )
    if not _DENIALS.intersection(statuses) and not plan.headers:
        session = "is that what users get?"
    return [
        f"{len(away)} of {count(len(answers), 'URL')} answered only "
        f"{', '.join(map(str, statuses))}: {session}"
    ]


def shortfalls(
    policy: Policy, final: Sample, report: Mapping[str, Any] | None, log: str
) -> tuple[str, ...]:
    """Sentences about promises that the policy did not keep.

    Args:
        final: the sample after the load. A server that reforks has a mold from the start.
    """
    found = []
    if policy.refork and not final.others:
        found.append(f"did not refork: {_reason(NO_REFORK, log)}")
    elif policy.refork and not find(REFORKED, log) and (failed := find(REFORK_FAILED, log)):
        found.append(f"did not refork: {failed[1]}")
    elif policy.heap and not policy.refork and report is None:
        found.append(f"did not seal: {_reason(NO_SEAL, log)}")
    if policy.heap and report is not None and report.get("sealed") is False:
        found.append(f"did not seal: {report.get('reason') or 'not all steps were taken'}")
    return tuple(found)


def _reason(line: str, log: str) -> str:
    said = find(line, log)
    return "the server did not say why" if said is None else said[0]
