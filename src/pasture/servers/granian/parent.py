"""granian's parent process: it loads the application once and forks its workers, sealed.

Owns when that is, and what is refused. The rest is granian's: its parent binds nothing and serves
nothing, watches its workers and replaces them; the runtime in Rust starts in each worker. Written
for granian 2.8; leans on `AbstractServer._serve`, which is given the function that loads the
application in a worker, and on `WorkerProcess._spawn`, which makes a process of multiprocessing's.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from granian.server.common import AbstractServer
from granian.server.mp import WorkerProcess

from pasture.errors import UsageError
from pasture.sealing.gc_settings import begin_loading
from pasture.servers import restart
from pasture.servers.forked_process import Forking
from pasture.servers.import_failure import importing
from pasture.servers.restart import LeftOut
from pasture.servers.sealer import Sealer, show_log
from pasture.servers.settings import ServerSettings, settings_or_end
from pasture.servers.warming import host_at, warm_up_as_set
from pasture.warmup.warmup import WarmUpReport

log = logging.getLogger("pasture")

Loader = Callable[[], Any]

refuses = False
"""Whether a server that forks nothing is ended, rather than warned and let run."""


def install() -> None:
    """Have the workers of this process's servers forked and sealed."""
    settings = settings_or_end()
    if restart.is_without_pasture():
        show_log()
        log.error("%s: no seal", restart.earlier)
        return
    server_class: Any = AbstractServer
    serve, reload = server_class._serve, server_class._serve_with_reloader

    def sealed_serve(server: Any, spawn_target: Any, target_loader: Loader) -> None:
        serve(server, spawn_target, prepare(server, target_loader, settings))

    def refused_reload(server: Any, *arguments: Any) -> None:
        refuse_reload(strict=refuses or settings.strict)
        reload(server, *arguments)

    server_class._serve, server_class._serve_with_reloader = sealed_serve, refused_reload


def refuse_reload(*, strict: bool) -> None:
    """Refuse to serve anew at each change of a file.

    Raises:
        UsageError: `strict`.
    """
    error = UsageError(
        "with --reload granian starts its workers anew at each change of a file: there is nothing "
        "to share",
        hint="leave --reload out, or leave pasture out",
    )
    if strict:
        raise error
    log.warning("not sealed: %s", error)


def prepare(server: Any, load: Loader, settings: ServerSettings) -> Loader:
    """Load the application, have workers forked; what gives a worker the application.

    Raises:
        AppImportFailed: the application cannot be imported or made.
    """
    policy = dataclasses.replace(settings.policy, at_exit=())  # the workers end by os._exit

    def begin_anew(left_out: LeftOut) -> None:
        if restart.is_possible():
            _unlink(getattr(server, "bind_uds", None))
            restart.again(left_out)

    sealer = Sealer(dataclasses.replace(settings, policy=policy), begin_anew=begin_anew)
    begin_loading(policy)
    server._env_loader(server.env_files)
    hint = "check the name and --working-dir"
    with importing(str(server.target), server="granian", hint=hint):
        application = load()

    def before_fork() -> None:
        sealer.before_fork(lambda: _warm_up(application, server, settings))

    context = Forking(before_fork)

    def spawn(worker: Any, target: Any, arguments: Any) -> None:
        worker.inner = context.Process(name="granian-worker", target=target, args=arguments)

    process_class: Any = WorkerProcess
    process_class._spawn = spawn
    return lambda: application


def _unlink(uds: str | Path | None) -> None:
    """Make way for the new start, which binds it again."""
    if uds is not None:
        Path(uds).unlink(missing_ok=True)


def _warm_up(application: Any, server: Any, settings: ServerSettings) -> WarmUpReport:
    if str(server.interface.value) == "rsgi":
        return WarmUpReport(refused="only applications of ASGI and WSGI are warmed up")
    return warm_up_as_set(
        application,
        settings,
        host=host_at(server.bind_addr, server.bind_port),
        on_start=lambda name: log.info("warm-up: %s", name),
    )
