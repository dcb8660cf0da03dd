"""uvicorn's parent process: it loads the application once and forks its workers, sealed.

Leans on `uvicorn._subprocess.spawn`, and on `Config.load`, which imports the application and does
not start its lifespan.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import uvicorn._subprocess
from uvicorn.config import Config
from uvicorn.supervisors import Multiprocess

from pasture.errors import AppImportFailed, ProbeFailed
from pasture.log_lines import enable, log
from pasture.own_values import generators
from pasture.scoreboard.recorder import recorder
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.uvicorn.worker import ForkContext, LogSetup, as_in_uvicorn, count_requests
from pasture.serving import restart
from pasture.serving.moved_import import EndedBySignal, moved_import
from pasture.serving.preload import importing
from pasture.serving.sealer import Sealer, without_exit
from pasture.serving.settings import ServerSettings
from pasture.serving.warming import host_at, warm_up_as_set
from pasture.warmup.protocol import Protocol

if TYPE_CHECKING:
    from pasture.probe.replay import Replay
    from pasture.serving.lifespan import SharedLifespan
    from pasture.warmup.warmup import WarmUpReport


_LOAD_FAILED = 3  # uvicorn's STARTUP_FAILURE, whose module differs between versions


class SealingSupervisor(Multiprocess):
    """uvicorn's supervisor, with workers forked from a loaded parent."""

    def __init__(
        self, settings: ServerSettings, config: Config, *arguments: Any, **named: Any
    ) -> None:
        self._settings = settings
        # uvicorn's workers end by os._exit, or by the signal that asked them to.
        self._sealer = Sealer(
            without_exit(settings),
            stop_agents=True,
            start_again=self._start_again,
            serves=lambda: "asgi",
        )
        logs = LogSetup()
        begin_loading(settings.policy)
        # uvicorn's own handlers come next, which only note a signal.
        self._lifespan: SharedLifespan | None = None
        self.config = config
        with _ended_by_term(), generators.observed():
            with moved_import(settings, self._start_again):
                self._application = application = load(config)
            if settings.lifespan == "once":
                seen = as_in_uvicorn(application, config)
                from pasture.serving.lifespan import start_once  # now: it is sealed in

                self._lifespan = start_once(seen, strict=settings.strict)
                config.loaded_app = self._lifespan.wrap(application)
        logs.compare()  # workers keep the application's changes of uvicorn's loggers
        enable(logging.getLogger("uvicorn.error"))
        recorder.will_count_requests(main_serves=True)
        config.loaded_app = count_requests(config.loaded_app, settings.memory_limit)
        self._context = ForkContext(config, logs, self._before_fork, self._close_pipes)
        vars(uvicorn._subprocess)["spawn"] = self._context
        super().__init__(config, *arguments, **named)
        log.info("HUP replaces the workers and does not load new code: restart for that")

    def run(self) -> Any:
        """Serve until asked to end; then end the application, if it was started here."""
        try:
            return super().run()
        finally:
            if self._lifespan is not None:
                self._lifespan.end()

    def _before_fork(self) -> None:
        try:
            self._sealer.before_fork(self._warm_up, self._play)
        except ProbeFailed:
            self._unlink()
            raise

    def _play(self, replay: Replay) -> None:
        """Run a worker without a socket, in a probe."""
        from pasture.serving.proving import loop_factory  # now: it is sealed in

        config = self.config
        self._context.part()
        config.configure_logging()
        self._context.settle()
        replay.asgi(config.loaded_app, loop_factory(config), lifespan=config.lifespan != "off")

    def _start_again(self, why: str, *, plain: bool = True) -> None:
        """Start this program again. Its socket does not listen yet: no connection is lost."""
        if not restart.is_possible():
            return
        if self._lifespan is not None:
            self._lifespan.end()
        self._unlink()
        restart.again(why, plain=plain)

    def _unlink(self) -> None:
        if self.config.uds:
            Path(self.config.uds).unlink(missing_ok=True)

    def _close_pipes(self) -> None:
        """Close the pipes of other workers, in a worker right after the fork."""
        for process in self.processes:
            process.parent_conn.close()
            process.child_conn.close()

    def _warm_up(self) -> WarmUpReport:
        config = self.config
        return warm_up_as_set(
            as_in_uvicorn(self._application, config),
            self._settings,
            host=host_at(config.host, config.port),
            protocol=Protocol.ASGI,  # uvicorn has wrapped WSGI applications
            shared=self._lifespan,
        )


def load(config: Config) -> Any:
    """Load the application and its server, as each worker would, without starting them."""
    hint = "check the name and --app-dir"
    try:
        with importing(str(config.app), server="uvicorn", hint=hint):
            config.load()
            if hasattr(config, "get_loop_factory"):
                config.get_loop_factory()  # imports uvloop
    except SystemExit as end:
        if end.code != _LOAD_FAILED:  # the application's own
            raise
        raise AppImportFailed(
            f"{config.app} cannot be loaded", hint="uvicorn's line above says why", is_certain=True
        ) from None
    return config.loaded_app


@contextmanager
def _ended_by_term() -> Iterator[None]:
    """Have SIGTERM raise SystemExit, so that a socket's file is removed."""

    def end(*_: object) -> NoReturn:
        raise EndedBySignal(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end:  # the application has no handler
            signal.signal(signal.SIGTERM, before)
