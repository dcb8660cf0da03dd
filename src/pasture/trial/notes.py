"""Sentences about what limits the figures of a trial: pure functions of what was measured."""

from __future__ import annotations

from pasture.display.units import count, some
from pasture.sealing.policy import POLICIES
from pasture.trial import responses
from pasture.trial.measurement import PolicyResult
from pasture.trial.plan import TrialPlan
from pasture.trial.servers.facts import STOCK

_MAX_URLS = 5
_DENIALS = frozenset((401, 403))


def notes_on(plan: TrialPlan, policies: tuple[PolicyResult, ...]) -> tuple[str, ...]:
    """Sentences about what limits the figures."""
    notes = []
    if plan.facts.stock and any(result.policy == STOCK for result in policies):
        notes.append(plan.facts.stock)
    if plan.locustfile and plan.warm is None and all(POLICIES[p].warms_up for p in plan.possible):
        notes.append(
            "no warm-up: what a locustfile requests is learnt from a policy without one; "
            "add --policy stock, or name requests with --warm"
        )
    notes += _without_page(plan, policies[0]) if policies else []
    for result in policies:
        runs, name = result.runs, result.policy
        if any(run.final.swap_pss_bytes for run in runs):
            notes.append(f"{name}: memory was swapped out, which no figure here counts")
        if sum(run.load.failures for run in runs) > result.timeouts:
            failures = sum(run.load.failures for run in runs) - result.timeouts
            urls = some(responses.failing(responses.merge(run.answers for run in runs)), _MAX_URLS)
            notes.append(f"{name}: {count(failures, 'request')} failed ({urls})")
        if result.timeouts:
            notes.append(f"{name}: {_timed_out(result)} within {plan.server_timeout_s:g} s")
        if any(run.load.requests < plan.requests for run in runs):
            notes.append(f"{name}: the load ended before {plan.requests} requests were sent")
        if not all(run.shutdown.by_itself for run in runs):
            notes.append(f"{name}: the server did not end on SIGTERM and was killed")
        if any(len(run.final.workers) < plan.workers for run in runs):
            notes.append(f"{name}: not all workers were alive at the end")
    return tuple(notes)


def _timed_out(result: PolicyResult) -> str:
    """As in `3 requests had no answer (GET /slow)`."""
    urls = responses.timed_out(responses.merge(run.answers for run in result.runs))
    return f"{count(result.timeouts, 'request')} timed out, with no answer ({', '.join(urls)})"


def _without_page(plan: TrialPlan, result: PolicyResult) -> list[str]:
    """A sentence where the load is turned away: it then measures little of the application."""
    answers = responses.merge(run.answers for run in result.runs)
    away = responses.without_page(answers)
    statuses = sorted({status for found in away.values() for status in found.statuses})
    if len(away) * 2 < len(answers) and not _DENIALS.intersection(statuses):
        return []
    session = "is the session in the headers still good?" if plan.headers else "do they need one?"
    if not _DENIALS.intersection(statuses) and not plan.headers:
        session = "is that what users get?"
    return [
        f"{len(away)} of {count(len(answers), 'URL')} answered with nothing but "
        f"{', '.join(map(str, statuses))}: {session}"
    ]
