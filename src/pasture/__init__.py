"""Keeps the memory of forked Python workers shared.

The library's whole interface. It imports the standard library and the extension alone:
the process that is sealed imports it.
"""

from importlib import import_module
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

if TYPE_CHECKING:
    from pasture.servers.pools import sealed, sealed_forkserver
    from pasture.warmup.warmup import WarmUpReport, warm_up

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

# Not at import: what a process has no use for would be sealed into it, `multiprocessing` and
# `urllib` for instance.
_AT_FIRST_USE = {
    "WarmUpReport": "pasture.warmup.warmup",
    "sealed": "pasture.servers.pools",
    "sealed_forkserver": "pasture.servers.pools",
    "warm_up": "pasture.warmup.warmup",
}


def __getattr__(name: str) -> Any:
    if name in _AT_FIRST_USE:
        return getattr(import_module(_AT_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
