"""What a gunicorn configuration file asked for, until the arbiter is there to read it."""

from __future__ import annotations

from collections.abc import Iterable

from pasture.sealing.policy import Policy, find_policy
from pasture.servers.settings import ServerSettings, read_environment

_policy: Policy | None = None
_warm: tuple[str, ...] = ()
_max_uss: str | None = None
_refork: str | None = None
_warm_timeout: float | None = None
_warm_total_timeout: float | None = None


def configure(
    *,
    policy: str | Policy | None = None,
    warm: Iterable[str] = (),
    max_uss: str | None = None,
    refork: str | None = None,
    warm_timeout: float | None = None,
    warm_total_timeout: float | None = None,
) -> None:
    """Choose the policy and the requests of the warm-up, from a `gunicorn.conf.py`.

    The options of `pasture run`, and the variables it sets, win over what is given here.

    Args:
        policy: its name, or one of your own; None is "seal".
        warm: lines `PATH`, `METHOD PATH` or `Name: value` (a header for all of them).
        max_uss: a worker whose private memory passes this is replaced, as in `200M`.
        refork: requests by generation after which a worker becomes the next parent, as in
            `50,500,2000`; see docs/refork.md.
        warm_timeout, warm_total_timeout: seconds for each request of the warm-up and for all of
            it; 0 is no limit.

    Raises:
        UnknownPolicy: no policy has that name.
    """
    global _policy, _warm, _max_uss, _refork, _warm_timeout, _warm_total_timeout
    _warm_timeout, _warm_total_timeout = warm_timeout, warm_total_timeout
    _max_uss, _refork = max_uss, refork
    _policy = None if policy is None else find_policy(policy)
    _warm = tuple(warm)


def settings() -> ServerSettings:
    """What is in force: variables first, then the configuration file, then the defaults.

    Raises:
        UnknownPolicy, UsageError: a variable, or a file that it names, makes no sense.
    """
    return read_environment(
        policy=_policy,
        warm=_warm,
        max_uss=_max_uss,
        refork=_refork,
        warm_timeout=_warm_timeout,
        warm_total_timeout=_warm_total_timeout,
    )
