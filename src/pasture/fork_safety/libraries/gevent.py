"""gevent: its own `os.fork` gives the child a hub that works, and no other fork does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pasture.fork_safety.library import Library
from pasture.reasons import Hazard, Reason


def gevent_has_patched() -> bool:
    """Whether gevent has replaced functions of the standard library in this process."""
    return bool(getattr(sys.modules.get("gevent.monkey"), "saved", None))


def _hazards() -> Iterator[Hazard]:
    if _hub_is_lost():
        yield Hazard(
            "gevent's hub, which this fork does not renew",
            "call gevent.monkey.patch_all() before anything else is imported, or gevent.reinit() "
            "in each child",
            Reason.GEVENT_HUB,
        )


def _hub_is_lost() -> bool:
    """Whether this thread has a hub, and the next fork is not gevent's: uWSGI forks in C."""
    module: Any = sys.modules.get("gevent._hub_local")
    if module is None or module.get_hub_if_exists() is None:
        return False
    return not os.fork.__module__.startswith("gevent") or "uwsgi" in sys.modules


CARD = Library(package="gevent", hazards=_hazards)
