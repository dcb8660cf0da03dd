"""gevent: only its own `os.fork` gives the child a hub that works."""

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
    module: Any = sys.modules.get("gevent._hub_local")
    has_hub = module is not None and module.get_hub_if_exists() is not None
    # uWSGI forks in C.
    if has_hub and (not os.fork.__module__.startswith("gevent") or "uwsgi" in sys.modules):
        yield Hazard(
            "gevent's hub, which this fork does not renew",
            "call gevent.monkey.patch_all() before anything else is imported, or gevent.reinit() "
            "in each child",
            Reason.GEVENT_HUB,
        )


CARD = Library(package="gevent", hazards=_hazards)
