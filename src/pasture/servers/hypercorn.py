"""hypercorn's workers, forked from a sealed parent. Importing this module is the switch.

In the program that calls `hypercorn.run.run(config)` `import pasture.servers.hypercorn`, or
`pasture run hypercorn app:app --workers 8`. docs/uvicorn.md is the user's guide.

Written for hypercorn 0.18; leans on the names `get_context`, `load_application` and `run` in
`hypercorn.run`, and on the workers' loading of the application, which finds it imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from pasture.errors import UsageError
from pasture.own_values import generators
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.engine import Engine, installed
from pasture.serving import restart
from pasture.serving.forked_process import Forking
from pasture.serving.moved_import import moved_import
from pasture.serving.preload import importing
from pasture.serving.sealer import Sealer, without_exit
from pasture.serving.warming import host_at, warm_up_as_set
from pasture.warmup.protocol import Protocol

if TYPE_CHECKING:
    from pasture.warmup.warmup import WarmUpReport

with installed("hypercorn"):
    import hypercorn.run
    from hypercorn.app_wrappers import ASGIWrapper
    from hypercorn.config import Config
    from hypercorn.utils import load_application


class Hypercorn(Engine):
    """hypercorn's function that starts workers, by their configuration."""

    name = "hypercorn"

    def install(self) -> None:
        where: Any = hypercorn.run
        theirs = where.run

        def run(config: Config) -> Any:
            if not self.is_refused(config):
                self.prepare(config)
            return theirs(config)

        where.run = vars(importlib.import_module("hypercorn.__main__"))["run"] = run

    def check(self, started: Config) -> None:
        if started.use_reloader:
            self.refuse_reload()
        if started.workers == 0:
            raise UsageError(
                "hypercorn with --workers 0 serves in one process: there is nothing to share",
                hint="give --workers 2 or more, or leave pasture out",
            )

    def prepare(self, config: Config) -> None:
        """Load the application, and have `hypercorn.run.run` fork instead of spawn."""
        settings = without_exit(self.settings)
        sealer = Sealer(
            settings,
            start_again=restart.again,
            serves=lambda: "asgi" if isinstance(application, ASGIWrapper) else "web",
        )
        begin_loading(settings.policy)
        with generators.observed(), moved_import(settings, restart.again):
            application = load(config)

        def warm_up() -> WarmUpReport:
            is_asgi = isinstance(application, ASGIWrapper)
            return warm_up_as_set(
                application.app,
                settings,
                host=bound_to(config.bind[0]),
                protocol=Protocol.ASGI if is_asgi else Protocol.WSGI,
            )

        # hypercorn's parent asks all workers to end, and terminates the rest when the first has
        # ended: sealed ones end so quickly that the rest would be killed.
        context = Forking(
            lambda: sealer.before_fork(warm_up),
            ends_within_s=config.graceful_timeout + config.shutdown_timeout,
        )
        where: Any = hypercorn.run
        where.get_context = lambda method=None: context

    def command(self) -> Any:
        from hypercorn.__main__ import main

        sys.argv[0] = self.name
        return main()


def load(config: Config) -> Any:
    """Import the application and its server; returns the application, wrapped by hypercorn."""
    with importing(config.application_path, server="hypercorn", hint="check the name"):
        kind = "trio" if config.worker_class == "trio" else "asyncio"
        importlib.import_module(f"hypercorn.{kind}.run")  # its workers' module
        return load_application(config.application_path, config.wsgi_max_body_size)


def bound_to(address: str) -> str:
    """The `Host` of a request from this machine, from hypercorn's `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    return host_at(host, port) if port.isdigit() else "localhost:80"


engine = Hypercorn.switch_on()
