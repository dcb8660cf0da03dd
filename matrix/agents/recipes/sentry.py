"""Sentry's SDK: events, transactions, logs, profiles of transactions, sessions."""

from __future__ import annotations

import os
from collections.abc import Callable

import sentry_sdk


def start() -> None:
    port = os.environ["SINK_PORT"]
    sentry_sdk.init(
        f"http://key@127.0.0.1:{port}/1",
        traces_sample_rate=1.0,
        profiles_sample_rate=1.0,
        enable_logs=True,
    )


def report(mark: Callable[[str], str]) -> None:
    sentry_sdk.capture_message(mark("event"))
    # The name of a transaction comes again in the events after it; that of a span does not.
    with (
        sentry_sdk.start_transaction(name="mark", op="mark"),
        sentry_sdk.start_span(name=mark("trace"), op="mark"),
    ):
        pass
    sentry_sdk.logger.info(mark("log"))
