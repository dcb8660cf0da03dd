"""dramatiq's worker processes, forked from a sealed parent. Importing this module is the switch.

In a program that calls `dramatiq.cli.main` `import pasture.servers.dramatiq`, or
`pasture run dramatiq my_tasks`. docs/queues.md is the user's guide.

Written for dramatiq 1.17 to 2.2; leans on `dramatiq.cli.main`, on the options `broker`, `modules`,
`path` and `use_spawn`, on worker processes being started by `multiprocessing`'s default method, and
on a reload (HUP) that executes `sys.argv`.
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

from pasture.errors import UsageError
from pasture.servers.engine import Engine, installed
from pasture.serving import preload

with installed("dramatiq"):
    from dramatiq import cli


class Dramatiq(Engine):
    """dramatiq's command, by its options."""

    name = "dramatiq"
    moves_import = True

    def install(self) -> None:
        theirs = cli.main

        def main(args: Any = None) -> Any:
            options = cli.make_argument_parser().parse_args() if args is None else args
            self.begin(options)
            return theirs(options)

        cli.main = main

    def check(self, started: Any) -> None:
        if getattr(started, "use_spawn", False):
            raise UsageError(
                "with --use-spawn each process is a fresh interpreter: there is nothing to share",
                hint="leave --use-spawn out, or leave pasture out",
            )
        if getattr(started, "watch", None):
            raise UsageError(
                "with --watch dramatiq has a thread and restarts at each change of a file",
                hint="leave --watch out, or leave pasture out",
            )

    def load(self, started: Any) -> None:
        """Import the modules of each worker process: the broker's, and those with actors."""
        sys.path[:0] = started.path  # as dramatiq does next
        modules = [started.broker.partition(":")[0], *started.modules]
        preload.load(modules, is_needed=self.settings.strict)
        if self.is_command:
            sys.argv[:] = [sys.executable, *sys.orig_argv[1:]]
        multiprocessing.set_start_method("fork", force=True)

    def command(self) -> Any:
        sys.argv[0] = "pasture run dramatiq"
        return cli.main()


engine = Dramatiq.switch_on()
