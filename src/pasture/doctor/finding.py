"""What `pasture doctor` says of one thing that it looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pasture.doctor.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: its name, stable.
        is_obstacle: whether it costs shared memory.
        what: what was found, one sentence without a full stop.
        cost: what it costs; "" for what is in order.
        fix: how to fix it; "" for what is in order.
    """

    check: str
    is_obstacle: bool
    what: str
    cost: str = ""
    fix: str = ""


Check = Callable[[Evidence], Iterator[Finding]]
