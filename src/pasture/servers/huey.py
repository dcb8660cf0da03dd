"""Huey's worker processes, forked from a sealed parent. Importing this module is the switch.

In a program that makes a `huey.consumer.Consumer` with `worker_type="process"`
`import pasture.servers.huey`, or `pasture run huey_consumer my_app.huey -k process`. docs/queues.md
is the user's guide.

Written for Huey 2.5 to 3.5; leans on `Consumer.start` and `worker_type`, and on a restart (HUP)
that runs `sys.argv` as a script.
"""

from __future__ import annotations

import sys
from typing import Any

from pasture.errors import UsageError
from pasture.servers.engine import Engine, installed

with installed("huey_consumer"):
    from huey.consumer import Consumer


class Huey(Engine):
    """Huey's consumers."""

    name = "huey_consumer"
    works = True
    loads_early = True

    def install(self) -> None:
        self.before(Consumer, "start", lambda consumer: consumer)

    def check(self, started: Any) -> None:
        if started.worker_type != "process":
            raise UsageError(
                f"huey's workers of the type {str(started.worker_type)!r} are not forked",
                hint="give huey_consumer -k process, or leave pasture out",
            )

    def command(self) -> Any:
        from huey.bin.huey_consumer import consumer_main

        sys.argv[0] = self.restarted
        consumer_main()


engine = Huey.switch_on()
