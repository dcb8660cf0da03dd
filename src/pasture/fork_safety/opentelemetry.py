"""OpenTelemetry's metric readers: the lock that is held for as long as an export takes.

The SDK starts a reader's thread again in each child, and renews the locks of spans and logs there,
but not this one. A fork in the middle of an export leaves it locked: the worker's metrics never
leave, and its end waits for them for 30 s. Each child gets a new one.

Source: opentelemetry-sdk 1.45, sdk/metrics/_internal/export/__init__.py
(`PeriodicExportingMetricReader._at_fork_reinit`).
"""

from __future__ import annotations

import os
import sys
import threading

_MODULE = "opentelemetry.sdk.metrics._internal"
_hooked = False


def renew_locks_in_children() -> None:
    """Have each child renew them, from now on. In the parent; nothing without the SDK."""
    global _hooked
    if not _hooked and _MODULE in sys.modules:
        os.register_at_fork(after_in_child=renew_locks)
        _hooked = True


def renew_locks() -> None:
    """Give each reader a new lock. Right after the fork, in the child."""
    provider = getattr(sys.modules.get(_MODULE), "MeterProvider", None)
    for reader in list(getattr(provider, "_all_metric_readers", ())):
        if hasattr(reader, "_export_lock"):
            reader._export_lock = threading.Lock()
