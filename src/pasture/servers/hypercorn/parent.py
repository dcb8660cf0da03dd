"""hypercorn's parent process: it loads the application once and forks its workers, sealed.

Owns when that is, and what is refused. The rest is hypercorn's: its parent waits for its workers
and starts new ones in place of those that have ended as they should. Written for hypercorn
0.18; leans on the names `get_context`, `load_application` and `run` in `hypercorn.run`, and on the
workers' loading of the application, which finds it imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
from typing import Any

import hypercorn.run
from hypercorn.config import Config
from hypercorn.utils import load_application

from pasture.errors import UsageError
from pasture.sealing.gc_settings import begin_loading
from pasture.servers import restart
from pasture.servers.forked_process import Forking
from pasture.servers.import_failure import importing
from pasture.servers.sealer import Sealer, show_log
from pasture.servers.settings import ServerSettings, settings_or_end
from pasture.servers.warming import host_at, warm_up_as_set
from pasture.warmup.warmup import WarmUpReport

log = logging.getLogger("pasture")

refuses = False
"""Whether a server that forks nothing is ended, rather than warned and let run."""


def install() -> None:
    """Have the workers of this process's `hypercorn.run.run` forked and sealed."""
    settings = settings_or_end()
    if restart.is_without_pasture():
        show_log()
        log.error("%s: no seal", restart.earlier)
        return
    where: Any = hypercorn.run
    theirs = where.run

    def run(config: Config) -> Any:
        if not is_refused(config, strict=refuses or settings.strict):
            prepare(config, settings)
        return theirs(config)

    where.run = run
    command: Any = importlib.import_module("hypercorn.__main__")
    command.run = run


def is_refused(config: Config, *, strict: bool) -> bool:
    """Whether no worker is forked under this configuration from a parent that has loaded.

    Raises:
        UsageError: it is so, and `strict`.
    """
    if config.use_reloader:
        error = UsageError(
            "with --reload hypercorn starts its workers anew at each change of a file: there is "
            "nothing to share",
            hint="leave --reload out, or leave pasture out",
        )
    elif config.workers == 0:
        error = UsageError(
            "hypercorn with --workers 0 serves in one process: there is nothing to share",
            hint="give --workers 2 or more, or leave pasture out",
        )
    else:
        return False
    if strict:
        raise error
    log.warning("not sealed: %s", error)
    return True


def prepare(config: Config, settings: ServerSettings) -> None:
    """Load the application and have `hypercorn.run.run` fork where it would spawn.

    Raises:
        AppImportFailed: the application cannot be imported.
    """
    policy = dataclasses.replace(settings.policy, at_exit=())  # the workers end by os._exit
    sealer = Sealer(dataclasses.replace(settings, policy=policy), begin_anew=restart.again)
    begin_loading(policy)
    application = load(config)

    def before_fork() -> None:
        sealer.before_fork(lambda: _warm_up(application, config, settings))

    # hypercorn's parent asks all workers to end, and terminates the rest when the first has ended:
    # sealed ones end so quickly that none of the rest would come to its own end.
    context = Forking(before_fork, config.graceful_timeout + config.shutdown_timeout)
    where: Any = hypercorn.run
    where.get_context = lambda method=None: context


def load(config: Config) -> Any:
    """Import the application and what serves it; the application, as hypercorn wraps it.

    Raises:
        AppImportFailed: it cannot be imported.
    """
    loop = "trio" if config.worker_class == "trio" else "asyncio"
    with importing(config.application_path, server="hypercorn", hint="check the name"):
        importlib.import_module(f"hypercorn.{loop}.run")
        return load_application(config.application_path, config.wsgi_max_body_size)


def _warm_up(application: Any, config: Config, settings: ServerSettings) -> WarmUpReport:
    host, _, port = config.bind[0].rpartition(":")
    return warm_up_as_set(
        application.app,
        settings,
        host=host_at(host, port) if port.isdigit() else "localhost:80",
        on_start=lambda name: log.info("warm-up: %s", name),
    )
