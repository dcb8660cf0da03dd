"""The plan of a trial: a frozen description, checked before anything is started.

Owns the defaults and their checks. A plan is data: it can be written down, compared, and
run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pasture.errors import UsageError
from pasture.proc import smaps
from pasture.sealing.policy import find_policy
from pasture.serving import app_name
from pasture.warmup.requests import Header, Request
from pasture_tools.trial.servers import SERVERS, find_server
from pasture_tools.trial.servers.facts import PLAIN, STOCK, TRIED, ServerFacts

DEFAULT_URLS = (Request("GET", "/"),)
DEFAULT_SERVER = next(iter(SERVERS))
DEFAULT_POLICIES = SERVERS[DEFAULT_SERVER].policies


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """The plan of a `run_trial`."""

    app: str  # the application, as its server names it: `package.module:callable`
    server: str = DEFAULT_SERVER  # name of the server, of `pasture_tools.trial.servers.SERVERS`
    # Names, in the order of their runs; savings are against `plain` where that is among them, else
    # against `stock`, else against the first.
    policies: tuple[str, ...] = DEFAULT_POLICIES
    workers: int = 4  # number of the server's workers
    requests: int = 2000  # exact number of requests in a run
    # Simulated users, each with one request under way; None is one for each worker.
    concurrency: int | None = None
    # Requests of the load, walked in order and from the start again.
    urls: tuple[Request, ...] = DEFAULT_URLS
    headers: tuple[Header, ...] = ()  # sent with each request of the load and of the warm-up
    # Requests that a policy with a warm-up serves before the fork; None is one for each distinct
    # URL of the load.
    warm: tuple[Request, ...] | None = None
    # A file that holds the requests of the warm-up, and all headers, as its user wrote it.
    warm_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of the server
    chdir: Path | None = None  # working directory of the server; None is ours
    server_args: tuple[str, ...] = ()  # more arguments for the server
    # How long a boot may take, the warm-up not counted, and how long one request.
    server_timeout_s: float = 60.0
    log_dir: Path | None = None  # where the logs of server and load stay; None keeps none
    rounds: int = 1  # how often each policy is run; the order turns around after each round

    @property
    def users(self) -> int:
        """Simulated users."""
        return self.concurrency or self.workers

    @property
    def warm_up(self) -> tuple[Request, ...]:
        """The requests of a warm-up: the user's, or one for each distinct URL of the load."""
        return tuple(dict.fromkeys(self.urls)) if self.warm is None else self.warm

    @property
    def reference(self) -> str:
        """The policy that savings are counted against."""
        own = (name for name in (PLAIN, STOCK) if name in self.possible)
        return next(own, (*self.possible, *self.policies)[0])

    @property
    def facts(self) -> ServerFacts:
        """Facts of the server; UsageError for an unknown name."""
        return find_server(self.server)

    @property
    def possible(self) -> tuple[str, ...]:
        """The policies of the plan that exist on the server."""
        return tuple(policy for policy in self.policies if policy not in self.facts.cannot)

    @property
    def impossible(self) -> dict[str, str]:
        """Why a policy does not exist on the server, by its name, for those of the plan."""
        cannot = self.facts.cannot
        return {policy: cannot[policy] for policy in self.policies if policy in cannot}


def check_plan(plan: TrialPlan) -> None:
    """Refuse a plan that would fail later, before any process is started.

    Raises:
        UsageError: a number is out of range, a file or directory is missing, a policy is named
        twice, the server is unknown, or an option is not for a trial of it. UnknownPolicy: a policy
        is unknown; the hint names the nearest. NoPrivilege: the kernel does not show memory
        figures.
    """
    for name in ("workers", "requests", "users", "rounds", "server_timeout_s"):
        if getattr(plan, name) <= 0:
            raise UsageError(f"{name} must be more than 0", hint=f"it is {getattr(plan, name)}")
    _check_policies(plan.policies)
    plan.facts.check(plan.server_args, plan.env, plan.workers)
    if not plan.possible:
        policy, why = next(iter(plan.impossible.items()))
        raise UsageError(f"{policy}: {why}", hint=f"leave it out, or try it under {DEFAULT_SERVER}")
    _check_files(plan)
    smaps.require_smaps_rollup()


def _check_policies(names: tuple[str, ...]) -> None:
    if not names:
        raise UsageError("no policy to try", hint=f"known are {', '.join(TRIED)}")
    if len(set(names)) < len(names):
        raise UsageError("a policy is named twice", hint="name each policy once")
    for name in names:
        if name not in TRIED:
            find_policy(name)  # raises, with the nearest name


def _check_files(plan: TrialPlan) -> None:
    if plan.chdir is not None and not plan.chdir.is_dir():
        raise UsageError(f"no such directory: {plan.chdir}", hint="name one that exists")
    try:
        _ = plan.chdir or Path.cwd()
    except OSError:
        raise UsageError("the working directory was deleted", hint="change to another") from None
    meant = app_name.did_you_mean(plan.app, plan.chdir or Path())
    if meant and plan.app.partition(":")[0].endswith(".py"):
        raise UsageError(f"{plan.app} is a file, not an application in a module", hint=meant)
    if not plan.urls:
        raise UsageError("no URL to request", hint="name one with --url")
