"""Keeps the memory of forked Python workers shared.

The library's whole interface. It imports the standard library and the extension alone:
the process that is sealed imports it.
"""

from typing import TYPE_CHECKING, Any

from pasture.errors import (
    PastureError,
    SealFailed,
    UnknownPolicy,
    UnsupportedInterpreter,
    UsageError,
)
from pasture.fork_safety.close import before_fork, close_connections, fork_unsafe
from pasture.gc import collect
from pasture.sealing.containers import register_container
from pasture.sealing.policy import POLICIES, Policy
from pasture.sealing.report import SealReport, StepReport
from pasture.sealing.seal import seal
from pasture.warmup.warmup import WarmUpReport, warm_up

if TYPE_CHECKING:
    from pasture.servers.pools import sealed, sealed_forkserver

__all__ = [
    "POLICIES",
    "PastureError",
    "Policy",
    "SealFailed",
    "SealReport",
    "StepReport",
    "UnknownPolicy",
    "UnsupportedInterpreter",
    "UsageError",
    "WarmUpReport",
    "before_fork",
    "close_connections",
    "collect",
    "fork_unsafe",
    "register_container",
    "seal",
    "sealed",
    "sealed_forkserver",
    "warm_up",
]

_POOLS = ("sealed", "sealed_forkserver")


def __getattr__(name: str) -> Any:
    # Not at import: `multiprocessing` would be sealed into processes that have no use for it.
    if name in _POOLS:
        from pasture.servers import pools

        return getattr(pools, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
