"""The command line that serves an application under the best policy of those that were tried.

Invariants: a policy that failed, fell short or answered differently is left out. The command serves
no request before the fork that the user has not named, and does not refork. Variables and headers
of the trial are never in it: they may be secrets.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from pasture.sealing.policy import DEFAULT_POLICY
from pasture.warmup.requests import Request
from pasture_tools.display.units import megabytes
from pasture_tools.trial.figures import TOTAL
from pasture_tools.trial.measurement import PolicyResult, TrialResult
from pasture_tools.trial.plan import DEFAULT_URLS, TrialPlan
from pasture_tools.trial.servers.facts import TRIED
from pasture_tools.trial.summary import best

_MAX_WARM = 4
"""The largest number of requests in a command line."""


def best_command(result: TrialResult) -> str:
    """The command to type; "" if no policy without reforks saves memory."""
    winner = _best(result, reforks=False)
    if winner is None:
        return ""
    plan, policy = result.plan, TRIED[winner.policy]
    words = ["pasture", "run"]
    if policy.name != DEFAULT_POLICY:
        words += ["--policy", policy.name]
    if policy.warms_up:
        words += _warm(plan)
    server = [word.format(app=plan.app, workers=plan.workers) for word in plan.facts.served_by]
    folder = f"cd {shlex.quote(str(plan.chdir))} && " if plan.chdir is not None else ""
    return folder + shlex.join((*words, plan.server, *server, *plan.server_args))


def on_reforks(result: TrialResult) -> str:
    """The gain and the condition of a refork, in words; "" without a gain."""
    winner, other = _best(result, reforks=False) or result.reference, _best(result, reforks=True)
    if other is None or other.median(TOTAL) >= winner.median(TOTAL):
        return ""
    more = megabytes(winner.median(TOTAL) - other.median(TOTAL))
    schedule = ",".join(map(str, TRIED[other.policy].refork))
    return (
        f"A refork would save {more} more: workers become copies of one that has served, and share "
        f"what it holds. Read docs/refork.md, then add --refork {schedule}."
    )


def _best(result: TrialResult, *, reforks: bool) -> PolicyResult | None:
    """The best trusted policy among those that refork, or among those that do not."""
    policies = tuple(
        p
        for p in result.policies
        if p is result.reference
        or (_is_trusted(result, p) and bool(TRIED[p.policy].refork) is reforks)
    )
    return best(replace(result, policies=policies))


def _is_trusted(result: TrialResult, policy: PolicyResult) -> bool:
    failed = any(failure.policy == policy.policy for failure in result.failures)
    late = policy.timeouts > result.reference.timeouts
    return not (failed or late or policy.disagreements or policy.shortfalls)


def _warm(plan: TrialPlan) -> list[str]:
    """The requests that the user has named, if a command line can; else none, and `--auto`."""
    if plan.warm_file is not None:
        return ["--warm-file", str(plan.warm_file.absolute() if plan.chdir else plan.warm_file)]
    known = plan.warm if plan.warm is not None else tuple(dict.fromkeys(plan.urls))
    own = plan.warm is not None or plan.urls != DEFAULT_URLS
    if plan.headers or len(known) > _MAX_WARM or not own:
        return ["--auto"]
    return [
        word
        for one in known
        for word in ("--warm", one.path if one == Request("GET", one.path) else str(one))
    ]
