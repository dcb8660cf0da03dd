"""Keeps the memory of forked Python workers shared.

The library's whole interface. It imports the standard library and the extension alone:
the process that is sealed imports it.
"""

import sys
from importlib import import_module

from pasture.errors import (
    PastureError,
    SealFailed,
    UnknownPolicy,
    UnsupportedInterpreter,
    UsageError,
)

TYPE_CHECKING = False  # `typing` takes the longest of all that comes before Ctrl-C is caught


def _is_command() -> bool:
    """Whether this process needs little of the library at first: `pasture`, `pytest`, or one that
    images are made of.

    Any other program has it from the import on: at a seal there may be no memory left for it.
    """
    first, *more = sys.orig_argv[1:3] or [""]
    name = more[0] if more and first == "-m" else first.rpartition("/")[2]
    return name in ("pasture", "pytest") or "pasture_image.inside" in sys.modules


if TYPE_CHECKING or not _is_command():
    from pasture.fork_safety.close import before_fork, close_connections, fork_unsafe
    from pasture.gc import collect
    from pasture.sealing.containers import register_container
    from pasture.sealing.memory_types import holds_memory
    from pasture.sealing.policy import POLICIES, Policy
    from pasture.sealing.report import SealReport, StepReport
    from pasture.sealing.seal import seal
if TYPE_CHECKING:
    from pasture.servers.pools import sealed, sealed_forkserver
    from pasture.sizing import workers
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
    "holds_memory",
    "register_container",
    "seal",
    "sealed",
    "sealed_forkserver",
    "warm_up",
    "workers",
]

# Not at import: what a process has no use for would be sealed into it, `multiprocessing` and
# `urllib` for instance, or the command would wait for it.
_AT_FIRST_USE = {
    "POLICIES": "pasture.sealing.policy",
    "Policy": "pasture.sealing.policy",
    "SealReport": "pasture.sealing.report",
    "StepReport": "pasture.sealing.report",
    "WarmUpReport": "pasture.warmup.warmup",
    "before_fork": "pasture.fork_safety.close",
    "close_connections": "pasture.fork_safety.close",
    "collect": "pasture.gc",
    "fork_unsafe": "pasture.fork_safety.close",
    "holds_memory": "pasture.sealing.memory_types",
    "register_container": "pasture.sealing.containers",
    "seal": "pasture.sealing.seal",
    "sealed": "pasture.servers.pools",
    "sealed_forkserver": "pasture.servers.pools",
    "warm_up": "pasture.warmup.warmup",
    "workers": "pasture.sizing",
}


def __getattr__(name: str) -> object:
    if name in _AT_FIRST_USE:
        return getattr(import_module(_AT_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
