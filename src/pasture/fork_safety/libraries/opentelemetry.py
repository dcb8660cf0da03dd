"""OpenTelemetry's metric readers, repaired in each child.

The SDK starts a reader's thread again there, and renews the locks and empties the queues of spans
and logs. It does neither for metrics:

- A fork in the middle of an export leaves the reader's lock locked. The worker's metrics never
  leave, and its end waits for them for 30 s.
- Counts that the parent has not reported yet are reported by each child, too. Repaired for readers
  that report differences (delta); sums since the start (cumulative) do not show whose they are.

Source: opentelemetry-sdk 1.45, sdk/metrics/_internal: export/__init__.py
(`PeriodicExportingMetricReader`), measurement_consumer.py, _view_instrument_match.py (`collect`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from pasture.fork_safety.library import Library

_MODULE = "opentelemetry.sdk.metrics._internal"
_hooked = False


def put_in_order_in_children() -> None:
    """Have each child repair its readers. In the parent; does nothing without the SDK."""
    global _hooked
    if not _hooked and _MODULE in sys.modules:
        os.register_at_fork(after_in_child=put_in_order)
        _hooked = True


def put_in_order() -> None:
    """Give each reader a new lock, and forget counts that the parent will report. In the child."""
    provider = getattr(sys.modules.get(_MODULE), "MeterProvider", None)
    for reader in list(getattr(provider, "_all_metric_readers", ())):
        if hasattr(reader, "_export_lock"):
            reader._export_lock = threading.Lock()
        for stream in _streams_of(reader):
            if getattr(stream, "_reset_on_collect", False):
                stream._attributes_aggregation = {}


def _streams_of(reader: Any) -> Iterator[Any]:
    consumer = getattr(getattr(reader, "_collect", None), "__self__", None)
    storage = getattr(consumer, "_reader_storages", {}).get(reader)
    for streams in list(getattr(storage, "_instrument_view_instrument_matches", {}).values()):
        yield from streams


CARD = Library(
    package="opentelemetry-sdk",
    restarted=("Otel", "OpenTelemetry"),
    prepare_children=put_in_order_in_children,
)
