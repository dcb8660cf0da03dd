"""New Relic's agent, started by `newrelic-admin run-program`."""

from __future__ import annotations

from collections.abc import Callable

import newrelic.agent


def start() -> None:
    """The wrapper has done it. The agent connects at the first transaction."""


@newrelic.agent.background_task()  # type: ignore[untyped-decorator, unused-ignore]
def report(mark: Callable[[str], str]) -> None:
    newrelic.agent.record_custom_event("Mark", {"mark": mark("event")})
