"""New Relic's agent, which records nothing while the warm-up's requests are served.

It connects at the first transaction and then belongs to that process: a process forked later
"reports no data". So the parent records no transaction before the fork.

Source: newrelic 14, api/transaction.py (`Transaction.__init__`), core/application.py
(`validate_process`), core/agent.py (`Agent.__init__`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pasture.fork_safety.library import Library, Named


@contextmanager
def kept_still() -> Iterator[None]:
    """Record no transaction in the `with` block. Does nothing where the agent is not imported."""
    agent = sys.modules.get("newrelic.agent")
    settings = agent.global_settings() if agent is not None else None
    if settings is None or not getattr(settings, "enabled", False):
        yield
        return
    # The agent is made here if it does not exist yet: one that is made while it is switched off
    # does not send its data at the exit.
    made = sys.modules.get("newrelic.core.agent")
    if made is not None:
        thread = getattr(made.agent_instance(), "_harvest_thread", None)
        os.register_at_fork(after_in_child=lambda: _let_start(thread))
    settings.enabled = False
    try:
        yield
    finally:
        settings.enabled = True


def _let_start(thread: Any) -> None:
    """Undo a fork's effect on a thread that was not started: it counts as ended for good.

    The agent starts it in the child, and at the exit does not wait for one that has ended.
    Source: CPython 3.12 Lib/threading.py (`_after_fork`); 3.13 does not do so.
    """
    started = getattr(thread, "_started", None)
    if getattr(thread, "_is_stopped", False) and started is not None and not started.is_set():
        thread._is_stopped = False


CARD = Library(
    threads=(Named("NR-", "New Relic's agent", "initialize it in each worker"),),
    while_warming=kept_still,
)
