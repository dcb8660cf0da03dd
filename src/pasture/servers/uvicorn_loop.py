"""The event loop that a configuration of uvicorn's asks for, in each version of uvicorn.

Imports nothing of uvicorn: gunicorn's arbiter needs it, too.
"""

from __future__ import annotations

from typing import Any


def loop_factory(config: Any) -> Any:
    """What makes the loop; None is asyncio's own, by the policy that uvicorn sets before 0.36."""
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()
    return None
