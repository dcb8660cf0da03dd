"""The sealing of a process that forks: before its first fork, and again if much was loaded since.

Owns that decision, the log line and the report file. Does not fork and knows no server.
Invariant: unless the settings are strict, the fork takes place after any error.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pasture import off
from pasture.errors import PastureError, UnsupportedInterpreter, refused
from pasture.fork_safety import held, streams
from pasture.interpreter import native
from pasture.log_lines import NO_SEAL, Log, log, write_to_log
from pasture.own_values import generators
from pasture.proc.own_memory import read_own_memory
from pasture.scoreboard.recorder import recorder
from pasture.sealing.policy import Policy, traced
from pasture.sealing.report import SealReport, show_report, write_copy
from pasture.sealing.seal import seal
from pasture.serving import fork_hook, learned, preload
from pasture.serving.settings import ServerSettings
from pasture.trust.untrusted_text import complain

if TYPE_CHECKING:
    from pasture.probe.probe import Play
    from pasture.serving.restart import Restart
    from pasture.warmup.warmup import WarmUpReport

WORTH_A_ROUND_OBJECTS = 20_000
"""New objects that make another seal worth it: about 2 MB of private memory in each worker forked
from then on. docs/internals/child-and-exit.md has the figures."""

IMPORT_S = 10.0
"""How long a fork waits for imports in other threads, whose locks would stay locked."""

_STDERR = "pasture's own"
"""Name of the handler that writes pasture's log to stderr."""

_latest: Sealer | None = None
"""The sealer of the engine that started last."""


class Sealer:
    """Seals this process, as often as that is worth while.

    Args:
        log: takes the report's line.
        prepare: makes a context for each seal, in which the heap may be changed.
        as_worker: makes a context for code of the application that runs before the fork.
        stop_agents: as in `pasture.seal`, for a server that calls `before_fork` before it forks,
            not in a hook of the fork.
        start_again: starts the server again, as without pasture, after a failed probe of the sealed
            process; None sends no probe.
        keeps_connections: whether this process uses its connections to databases between the forks;
            None is the value of `works`.
        works: whether this process does its program's work between the forks. It is then sealed
            once: each further seal would keep for good the objects in use.
        server: returns the pid of the process that users know as the server, if that is not the
            sealed one.
        serves: the kind of requests that its workers serve, as in `servers.engines`.

    Attributes:
        report: the latest seal's; None before the first.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        log: Log = write_to_log,
        prepare: Callable[[], AbstractContextManager[object]] = nullcontext,
        as_worker: Callable[[], AbstractContextManager[object]] = nullcontext,
        stop_agents: bool = False,
        start_again: Restart | None = None,
        works: bool = False,
        keeps_connections: bool | None = None,
        server: Callable[[], int] = os.getpid,
        serves: Callable[[], str] = lambda: "",
    ) -> None:
        global _latest
        _latest = self
        self._server, self._serves = server, serves
        self._start_again = start_again
        self.report: SealReport | None = None
        self._is_forking = False
        self._stop_agents = stop_agents
        self._keeps_connections = works if keeps_connections is None else keeps_connections
        self._works = works
        policy = settings.policy if settings.auto is None else traced(settings.policy)
        self._settings = replace(settings, policy=policy)
        self._log = log
        self._prepare, self._as_worker = prepare, as_worker
        self._unfrozen_then = 0
        # The count reads all unfrozen objects: the whole heap, if none is frozen.
        self._freezes = "freeze" in settings.policy.heap
        recorder.watch_forks()

    def before_fork(
        self,
        warm_up: Callable[[], WarmUpReport] | None = None,
        play: Play = lambda replay: replay.serve(),
        reaped: Callable[[int], object] = lambda pid: None,
    ) -> None:
        """Seal before the first fork, and before a later one if that is worth while.

        In the parent, right before the fork.

        Args:
            warm_up: serves the settings' requests, if any, as in `pasture.seal`, before the first
                seal.
            play: starts a worker in a probe, up to where it would serve connections.
            reaped: called with the pid of a probe once it is gone.

        Raises:
            PastureError: before the first fork, if the settings are strict, or if a probe failed
                and they forbid the start.
            KeyboardInterrupt: the process was asked to end.
        """
        if self._is_forking:
            return
        if module := held.wait_for_imports(IMPORT_S):
            self._log(logging.WARNING, f"{module} is still imported: a worker will wait for it")
        if self.report is None:
            self._load()
            if warm_up is None:
                self._seal(None, strict=self._settings.strict)
            else:
                self._seal_and_prove(warm_up, play, reaped)
        elif self.report.sealed and self._freezes and not self._works:
            new_objects = _unfrozen_objects() - self._unfrozen_then
            if new_objects >= WORTH_A_ROUND_OBJECTS:
                self._log(logging.INFO, f"{new_objects} new objects since the seal")
                self._seal(None, strict=False)
        recorder.expect_worker()

    def _load(self) -> None:
        """Import the modules that the settings name, and build what was learned."""
        settings = self._settings
        generators.settle_observed()
        if settings.preload:
            with generators.observed(), self._as_worker():
                preload.load(settings.preload, is_needed=settings.strict)
        if settings.auto is not None:
            with generators.observed(), self._forking():  # an entry may draw random numbers
                learned.prepare(
                    *(settings.auto, settings.policy, self._log, self._start_again),
                    as_worker=self._as_worker,
                )
            learned.choose_code(settings.policy, ran=False)

    def before_fork_or_end(self, *arguments: Any) -> None:
        """`before_fork` in a hook that must not raise: ends the process where the fork is refused.

        Python would only print an exception of a fork hook, and fork. Without memory for a seal
        this forks, too, unless the settings are strict.
        """
        try:
            self.before_fork(*arguments)
        except (PastureError, MemoryError) as error:
            words = error if isinstance(error, PastureError) else refused(error)
            code = complain(words) if words is not None else 1
            if words is error or self._settings.strict:
                sys.stdout.flush()
                os._exit(code)

    @contextmanager
    def _forking(self) -> Iterator[None]:
        """Fork in the block without the steps of a worker."""
        self._is_forking = True
        try:
            yield
        finally:
            self._is_forking = False

    def _served(self, warm_up: Callable[[], WarmUpReport]) -> WarmUpReport:
        with generators.observed(), self._as_worker():
            report = warm_up()
        learned.choose_code(self._settings.policy, ran=True)
        return report

    def _seal_and_prove(
        self, warm_up: Callable[[], WarmUpReport], play: Play, reaped: Callable[[int], object]
    ) -> None:
        streams.begin(is_loaded=True)  # streams that a warm-up opens from now on are isolated
        streams.arm()
        if self._start_again is None or not self._settings.probes:
            self._seal(lambda: self._served(warm_up), strict=self._settings.strict)
            return
        from pasture.serving import proving  # imported now: it is sealed in
        from pasture.warmup.guard import Guard

        served: list[WarmUpReport] = []

        def noted() -> WarmUpReport:
            served.append(self._served(warm_up))
            return served[0]

        with Guard(step_s=0, total_s=0):  # a signal ends the process before the fork
            self._seal(noted, strict=self._settings.strict)
        if self.report is None or not served:
            return
        with self._forking():
            step = proving.prove(
                *(served[0], self._settings, play, self._start_again), log=self._log, reaped=reaped
            )
        if step is not None:
            recorder.show_probe("passed" if step.failed is None else "failed")
            self.report = replace(self.report, steps=(*self.report.steps, step))
            show_report(self.report)
            write_copy(self.report, self._settings.report_file, self._log)

    def _seal(self, warm_up: Callable[[], WarmUpReport] | None, strict: bool) -> None:
        policy, is_first = self._settings.policy, self.report is None
        with self._prepare():
            report = seal(
                policy,
                stop_agents=self._stop_agents,
                keep_connections=self._keeps_connections,
                strict=strict,
                accept=self._settings.accepted,
                warm_up=warm_up if self._settings.serves_before_the_fork else None,
            )
        self.report = report
        if streams.is_armed():
            streams.note()
        if self._freezes:
            self._unfrozen_then = _unfrozen_objects()
        outlook = self._outlook(report, warm_up is not None) if is_first else ""
        self._log(level_of(policy, report), f"{report.line}{outlook}")
        for line in report.warnings:
            self._log(logging.WARNING, line)
        recorder.show_seal({**report.as_dict(), "serves": self._serves()})
        write_copy(report, self._settings.report_file, self._log)

    def _outlook(self, report: SealReport, has_warm_up: bool) -> str:
        """The memory to share, and the next step for the user, after the first seal."""
        policy = self._settings.policy
        if not policy.heap:
            return ""
        if not report.sealed:
            return f"; next: pasture doctor {self._server()}"
        step = f"pasture top {self._server()}"
        if has_warm_up and policy.warms_up and not (self._settings.warm_up or self._settings.auto):
            step = "--auto learns what workers import; --warm / serves a request before the fork"
        return f"{_shared() if report.objects else ''}; next: {step}"


def _shared() -> str:
    try:
        heap_bytes = read_own_memory().heap_bytes
    except (OSError, ValueError):  # the fork takes place whatever goes wrong
        return ""
    return f"; {heap_bytes / 1e6:.0f} MB for workers to share"


def _unfrozen_objects() -> int:
    """Number of container objects that are not frozen. Cheap only right after a seal."""
    try:
        count: int = native().unfrozen_objects()
    except (UnsupportedInterpreter, NotImplementedError):
        return len(gc.get_objects())  # counting writes to each of them
    return count


def level_of(policy: Policy, report: SealReport) -> int:
    """The log level of a report: a warning if the heap should be sealed and is not."""
    return logging.INFO if report.sealed or not policy.heap else logging.WARNING


def without_exit(settings: ServerSettings) -> ServerSettings:
    """Settings for workers that their server ends: the policy without steps at the exit."""
    return replace(settings, policy=replace(settings.policy, at_exit=()))


def has_sealer() -> bool:
    """Whether an engine has started, which seals itself."""
    return _latest is not None


def has_sealed() -> bool:
    """Whether an engine or a program has forked, so that its process had to be sealed."""
    return _latest is not None and _latest.report is not None


def seal_before_forks(
    settings: ServerSettings,
    *,
    works: bool = False,
    keeps_connections: bool | None = None,
    after: str = "",
    yields: bool = False,
) -> None:
    """Seal this process before it forks workers, from now on, as often as that is worth while.

    `works` and `keeps_connections` are those of `Sealer`, `after` that of `fork_hook.watch`. With
    `yields` the sealer of an engine takes over, once one has started.
    """
    sealer = Sealer(settings, works=works, keeps_connections=keeps_connections)

    def before_fork() -> None:
        if not yields or _latest is sealer:
            sealer.before_fork_or_end()

    fork_hook.watch(before_fork, after)


_is_off_said = False


def is_off(log: Log | None = None) -> bool:
    """Whether `PASTURE=off` is set, which is logged once, to stderr without a `log`.

    Call this before settings are read: wrong ones are not an error then.
    """
    global _is_off_said
    why = off.why()
    if why is not None and not _is_off_said:
        _is_off_said = True
        if log is None:
            show_log()
        (log or write_to_log)(logging.INFO, NO_SEAL % why)
    return why is not None


def show_log() -> None:
    """Write pasture's log to stderr; each line once, also with several engines in one program."""
    if any(handler.name == _STDERR for handler in log.handlers):
        return
    handler = logging.StreamHandler()
    handler.name = _STDERR
    handler.setFormatter(logging.Formatter("pasture: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
