"""Keeps the memory of forked Python workers shared.

The library's whole interface. It imports the standard library and the extension alone:
the process that is sealed imports it.
"""

from pasture.errors import (
    PastureError,
    SealFailed,
    UnknownPolicy,
    UnsupportedInterpreter,
    UsageError,
)
from pasture.heap.fork_safety import before_fork, close_connections
from pasture.heap.policy import POLICIES, Policy
from pasture.heap.report import SealReport, StepReport
from pasture.heap.seal import seal
from pasture.heap.warmup import WarmUpReport, warm_up

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
    "seal",
    "warm_up",
]
