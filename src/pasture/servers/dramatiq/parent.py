"""dramatiq's parent: it imports the actors once and forks its worker processes, sealed.

Owns when that is, and what is refused. Everything else is dramatiq's: signals, logs, the end.
Written for dramatiq 1.17 to 2.2; leans on `dramatiq.cli.main`, on the options `broker`, `modules`,
`path` and `use_spawn`, and on worker processes being started by `multiprocessing`'s default method.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
from typing import Any

from dramatiq import cli

from pasture.errors import PastureError, UsageError
from pasture.sealing.gc_settings import begin_loading
from pasture.servers import preload
from pasture.servers.complaint import end_or_warn
from pasture.servers.sealer import seal_before_forks
from pasture.servers.settings import ServerSettings, settings_or_end

log = logging.getLogger("pasture")

refuses = False
"""Whether options under which nothing is forked end the program, rather than warn and let run."""

restarts_as: list[str] = []
"""What takes this process's place at a reload (HUP); empty for dramatiq's own."""


def install() -> None:
    """Have the worker processes of this program's `dramatiq.cli.main` forked and sealed."""
    settings = settings_or_end()
    original = cli.main

    def main(args: Any = None) -> Any:
        options = cli.make_argument_parser().parse_args() if args is None else args
        begin(options, settings)
        return original(options)

    cli.main = main


def begin(options: Any, settings: ServerSettings) -> None:
    """Load what the worker processes would, and watch this process's forks.

    Args:
        options: parsed by dramatiq.
    """
    try:
        refuse(options)
        begin_loading(settings.policy)
        sys.path[:0] = options.path  # as dramatiq does next
        preload.load(modules_of(options), strict=settings.strict)
    except PastureError as error:
        end_or_warn(error, ends=refuses or settings.strict)
        return
    if restarts_as:
        sys.argv[:] = restarts_as
    multiprocessing.set_start_method("fork", force=True)
    seal_before_forks(settings)


def modules_of(options: Any) -> list[str]:
    """The modules that each worker process imports: the broker's, and those with actors."""
    return [options.broker.partition(":")[0], *options.modules]


def refuse(options: Any) -> None:
    """Raise if the worker processes are not forked.

    Raises:
        UsageError: they are fresh interpreters, or are started anew at each change of a file.
    """
    if getattr(options, "use_spawn", False):
        raise UsageError(
            "with --use-spawn each process is a fresh interpreter: there is nothing to share",
            hint="leave --use-spawn out, or leave pasture out",
        )
    if getattr(options, "watch", None):
        raise UsageError(
            "with --watch dramatiq starts anew at each change of a file, beside a thread",
            hint="leave --watch out, or leave pasture out",
        )
