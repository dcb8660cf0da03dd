"""The command line that serves an application under the best policy of those that were tried.

Invariant: a policy that failed, fell short or answered differently is left out. Variables and
headers of the trial are never in the line: they may be secrets.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from pasture.sealing.policy import DEFAULT_POLICY, POLICIES
from pasture.trial.measurement import PolicyResult, TrialResult
from pasture.trial.summary import best
from pasture.warmup.requests import Request

_MAX_WARM = 4
"""More requests than that are no command line: the server learns them."""


def best_command(result: TrialResult) -> str:
    """What to type; "" if no policy saves anything."""
    trusted = tuple(p for p in result.policies if p is result.reference or _is_trusted(result, p))
    winner = best(replace(result, policies=trusted))
    if winner is None:
        return ""
    plan, policy = result.plan, POLICIES[winner.policy]
    words = ["pasture", "run"]
    if policy.name != DEFAULT_POLICY:
        words += ["--policy", policy.name]
    if policy.warms_up and (plan.headers or len(plan.warm_up) > _MAX_WARM):
        words.append("--auto")
    elif policy.warms_up:
        for one in plan.warm_up:
            words += ["--warm", one.path if one == Request("GET", one.path) else str(one)]
    server = [word.format(app=plan.app, workers=plan.workers) for word in plan.facts.served_by]
    folder = f"cd {shlex.quote(str(plan.chdir))} && " if plan.chdir is not None else ""
    return folder + shlex.join((*words, plan.server, *server, *plan.server_args))


def _is_trusted(result: TrialResult, policy: PolicyResult) -> bool:
    failed = any(failure.policy == policy.policy for failure in result.failures)
    late = policy.timeouts > result.reference.timeouts
    return not (failed or late or policy.disagreements or policy.shortfalls)
