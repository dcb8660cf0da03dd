"""Huey's consumer with a seal before it forks its workers.

Owns when that is, and what is refused. Everything else is Huey's; a worker that has ended is
replaced by one forked from the sealed parent. Written for Huey 2.5 to 3.5; leans on
`Consumer.start` and `worker_type`.
"""

from __future__ import annotations

import logging
from typing import Any

from huey.consumer import Consumer

from pasture.errors import PastureError, UsageError
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.complaint import end_or_warn
from pasture.servers.sealer import seal_before_forks
from pasture.servers.settings import ServerSettings, settings_or_end

log = logging.getLogger("pasture")

refuses = False
"""Whether a consumer that forks nothing is ended, rather than warned and let run."""


def install() -> None:
    """Have the consumers of this process sealed, should one be started."""
    settings = settings_or_end()
    begin_loading(settings.policy)
    original = Consumer.start

    def start(consumer: Any) -> Any:
        begin(consumer, settings)
        return original(consumer)

    Consumer.start = start


def begin(consumer: Any, settings: ServerSettings) -> None:
    """Watch the forks of a consumer that is about to start its workers."""
    try:
        refuse(str(consumer.worker_type))
    except PastureError as error:
        end_or_warn(error, ends=refuses or settings.strict)
        return
    seal_before_forks(settings, works=True)


def refuse(worker_type: str) -> None:
    """Raise if workers of this type are not processes.

    Raises:
        UsageError: they are threads or greenlets.
    """
    if worker_type != "process":
        raise UsageError(
            f"huey's workers are of the type {worker_type!r}: nothing is forked",
            hint="give huey_consumer -k process, or leave pasture out",
        )
