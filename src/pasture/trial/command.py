"""The command line that serves an application under the best policy of those that were tried.

Invariant: a policy that failed, fell short or answered differently is left out. Variables and
headers of the trial are never in the line: they may be secrets.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from pasture.sealing.policy import DEFAULT_POLICY, POLICIES, Policy
from pasture.trial.measurement import PolicyResult, TrialResult
from pasture.trial.plan import TrialPlan
from pasture.trial.summary import best
from pasture.warmup.requests import Request

_MAX_WARM = 4
"""More requests than that are no command line."""

_IMAGE = "app.img"


def best_command(result: TrialResult) -> str:
    """What to type; "" if no policy saves anything."""
    trusted = tuple(p for p in result.policies if p is result.reference or _is_trusted(result, p))
    winner = best(replace(result, policies=trusted))
    if winner is None:
        return ""
    plan, policy = result.plan, POLICIES[winner.policy]
    words = _by_image(plan) if policy.out_of_image else _by_policy(plan, policy)
    folder = f"cd {shlex.quote(str(plan.chdir))} && " if plan.chdir is not None else ""
    return f"{folder}{words} {_server(plan)}"


def _is_trusted(result: TrialResult, policy: PolicyResult) -> bool:
    failed = any(failure.policy == policy.policy for failure in result.failures)
    late = policy.timeouts > result.reference.timeouts
    return not (failed or late or policy.disagreements or policy.shortfalls)


def _by_policy(plan: TrialPlan, policy: Policy) -> str:
    name = () if policy.name == DEFAULT_POLICY else ("--policy", policy.name)
    warm = _few(plan)
    learns = () if not policy.warms_up or warm else ("--auto",)
    listed = warm if policy.warms_up else ()
    return _line("pasture", "run", *name, *learns, *_warm(listed))


def _by_image(plan: TrialPlan) -> str:
    """Warmed up by few requests; more are no command line."""
    app = ("--app", plan.app, *_warm(warm)) if (warm := _few(plan)) else ()
    module = re.split(r"[:(]", plan.app, maxsplit=1)[0]
    build = _line("pasture", "image", "build", "-o", _IMAGE, "--preload", module, *app)
    return f"{build} && {_line('pasture', 'run', '--image', _IMAGE)}"


def _few(plan: TrialPlan) -> tuple[Request, ...]:
    """The requests of the warm-up, if a command line can name them; none otherwise."""
    known = plan.warm if plan.warm is not None else tuple(dict.fromkeys(plan.urls))
    if plan.headers or plan.locustfile is not None or len(known) > _MAX_WARM:
        return ()
    return known


def _warm(requests: Sequence[Request]) -> tuple[str, ...]:
    return tuple(
        word
        for one in requests
        for word in ("--warm", one.path if one == Request("GET", one.path) else str(one))
    )


def _server(plan: TrialPlan) -> str:
    words = [word.format(app=plan.app, workers=plan.workers) for word in plan.facts.served_by]
    return _line(plan.server, *words, *plan.server_args)


def _line(*words: str) -> str:
    return shlex.join(words)
