"""granian's workers, forked from a sealed parent. Importing this module is the switch.

In the program that calls `granian.Granian(...).serve()` `import pasture.servers.granian`, or
`pasture run granian --interface asgi app:app --workers 8`. The parent loads the application once;
the runtime in Rust starts in each worker. docs/uvicorn.md is the user's guide.

Written for granian 2.8; leans on `AbstractServer._serve`, which is given the function that loads
the application in a worker, and on `WorkerProcess._spawn`, which makes a process of
multiprocessing's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasture.log_lines import enable
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

with installed("granian"):
    from granian.server.common import AbstractServer
    from granian.server.mp import WorkerProcess

Loader = Callable[[], Any]


class Granian(Engine):
    """granian's servers, except those that load again at each change of a file."""

    name = "granian"

    def install(self) -> None:
        server_class: Any = AbstractServer
        serve, reload = server_class._serve, server_class._serve_with_reloader

        def sealed_serve(server: Any, spawn_target: Any, target_loader: Loader) -> None:
            serve(server, spawn_target, self.prepare(server, target_loader))

        def refused_reload(server: Any, *arguments: Any) -> None:
            self.is_refused(server)
            reload(server, *arguments)

        server_class._serve, server_class._serve_with_reloader = sealed_serve, refused_reload

    def check(self, started: Any) -> None:
        self.refuse_reload()

    def prepare(self, server: Any, load: Loader) -> Loader:
        """Load the application, and have workers forked; returns a loader for the workers."""
        settings = without_exit(self.settings)

        def start_again(why: str, *, plain: bool = True) -> None:
            if restart.is_possible():
                if (path := getattr(server, "bind_uds", None)) is not None:
                    Path(path).unlink(missing_ok=True)  # the new start binds it again
                restart.again(why, plain=plain)

        interface = str(server.interface.value)
        sealer = Sealer(
            settings,
            start_again=start_again,
            serves=lambda: "asgi" if interface.startswith("asgi") else "web",
        )
        begin_loading(settings.policy)
        server._env_loader(server.env_files)
        hint = "check the name and --working-dir"
        target = str(server.target)
        moved = moved_import(settings, start_again)
        with generators.observed(), moved, importing(target, server="granian", hint=hint):
            application = load()
        enable(logging.getLogger("_granian"))

        def warm_up() -> WarmUpReport:
            if interface == "rsgi":
                from pasture.warmup.warmup import WarmUpReport

                return WarmUpReport(refused="only ASGI and WSGI applications are warmed up")
            return warm_up_as_set(
                application,
                settings,
                host=host_at(server.bind_addr, server.bind_port),
                protocol=Protocol.WSGI if interface == "wsgi" else Protocol.ASGI,
            )

        context = Forking(lambda: sealer.before_fork(warm_up))

        def spawn(worker: Any, target: Any, arguments: Any) -> None:
            worker.inner = context.Process(name="granian-worker", target=target, args=arguments)

        process_class: Any = WorkerProcess
        process_class._spawn = spawn
        return lambda: application

    def command(self) -> Any:
        from granian.cli import entrypoint

        sys.argv[0] = self.name
        return entrypoint()


engine = Granian.switch_on()
