"""The mold: the process that collects once, is sealed, and forks the workers.

It is forked from the controller before that one is configured, and is configured as a worker of
xdist is. What it says of its collection is kept, and each worker says it again. It leaves the tests
to the workers: in the mold the loop over the tests is the loop over its children.

Invariant: the mold returns from `run` in no process, and a worker's code runs in workers alone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest import cacheprovider, stepwise, terminal
from _pytest.terminal import TerminalReporter
from xdist import remote

import pasture
from pasture.fork_safety.survey import survey
from pasture.main_program import made_module
from pasture.own_values import generators
from pasture.proc.tree import children, command_of
from pasture.reasons import Hazard
from pasture.sealing import exit
from pytest_pasture import cards, events, exits, loops, worker
from pytest_pasture.collection import Collection
from pytest_pasture.control import Channel, Declined, Forked, Sealed, SetsUp, Wanted
from pytest_pasture.keeper import Keeper
from pytest_pasture.lookout import LASTING, Finding, LookOut, WorkerInput, findings_of
from pytest_pasture.reporter import Reporter
from pytest_pasture.shared import Shared
from pytest_pasture.streams import detach

_OF_CACHE = ("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset")
_FROM_CACHE = ("lfplugin", "nfplugin", "stepwiseplugin")


def run(
    config: pytest.Config, control: Channel, lookout: LookOut, keeper: Keeper | None
) -> NoReturn:
    """Run the mold, and each of its workers; right after the fork from the controller."""
    mold = Mold(config, control, lookout, keeper)
    status = 0
    try:
        exits.leave_to_parent()
        detach(config)
        mold.start()
    except BaseException as error:
        if mold.worker is None:
            mold.decline(f"{type(error).__name__} in the collecting process: {error}")
        else:
            status = 1
    try:
        if mold.worker is not None:
            mold.worker.finish()
    finally:
        exit.leave(status)


class Mold(Collection):
    """A plug-in of the session that collects."""

    worker: worker.ForkedWorker | None = None
    """In a worker: itself."""

    report: pasture.SealReport | None = None

    def __init__(
        self, config: pytest.Config, control: Channel, lookout: LookOut, keeper: Keeper | None
    ) -> None:
        super().__init__(config, control, keeper is not None)
        self.lookout = lookout
        self.keeper = keeper
        self.kept_s: float | None = None
        self.again = 0
        self.notes: list[str] = []
        self.started = time.perf_counter()
        self.children: dict[int, int] = {}  # descriptor of the process, pid

    def start(self) -> None:
        """Run the session; returns in a worker, at its end."""
        first = self.control.receive()
        if not isinstance(first, Wanted):
            return
        self.first, self.first_sockets = first, self.control.descriptors
        self.started = time.perf_counter()
        self.input = WorkerInput(first.workerinput)
        self.lookout.worker = first.id
        _as_worker(self.config, self.input, first.basetemp)
        self.interactor = events.Interactor(self.config, self.recorder)
        remote.interactor = self.interactor
        self.input.read.clear()
        self.config.pluginmanager.unregister(name="pasture-report")  # the controller's
        self.config.pluginmanager.register(self, "pasture-mold")
        if self.keeper is not None:
            vars(self.config.option).update(dict.fromkeys(_OF_CACHE, False))
            self._call_when_collected(self._keep)
        terminal.TerminalReporter = Reporter  # type: ignore[misc]
        Reporter.interactor = self.interactor
        status = self.config.hook.pytest_cmdline_main(config=self.config)
        if self.worker is None:
            self.decline(f"the session ended before its tests, with status {int(status)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        terminal.TerminalReporter = TerminalReporter  # type: ignore[misc]

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if self.worker is None and excinfo.errisinstance(KeyboardInterrupt):
            self.tear_down()
            with suppress(OSError):
                self.control.send(Declined("interrupted", interrupted=True))
            exit.leave(0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        if self.worker is None:  # a collection that failed is reported by xdist's own workers
            self.decline(f"the collection ended with status {int(session.exitstatus)}")
            exit.leave(0)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self) -> None:
        """Leave for what cannot go away again, once the module has been imported to its end."""
        if self.report is None:
            for finding in self.lookout.noted:
                if finding.kind in LASTING and finding.kind not in self.allowed:
                    self.decline(str(finding))
                    exit.leave(0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        if self.report is None:
            self.share()
            self.seal()
        else:  # the hooks of this run came after the seal
            self.lookout.stop()
            cards.take("before_fork", self.config)
            self.decline_for(self.obstacle() or next(self.hazards(survey()), None))
        message = Sealed(
            self.seconds,
            len(session.items),
            str(self.report),
            self.kept_s,
            self.again,
            tuple(self.notes),
        )
        with suppress(OSError):
            self.control.send(message)
        self.collected = events.frames(self.recorder.events)
        wanted, descriptors = self.serve()
        self.worker = worker.ForkedWorker(self, wanted, *descriptors)
        return self.worker.run_tests()

    def share(self) -> None:
        """Set up what is marked to be set up once."""
        self.shared = Shared(self.interactor.session, self.lookout, self.is_kept)
        read = dict(self.input.read)
        self.lookout.is_loading = False
        self.shared.set_up(lambda: self.control.send(SetsUp()))
        if self.shared.notes:  # what one of them read is gone with it
            self.input.read = read
            self.notes += self.shared.notes

    def seal(self) -> None:
        """Seal what was collected; leaves where no worker can be forked from it."""
        collected = time.perf_counter()
        generators.settle()
        self.lookout.stop()
        cards.take("before_fork", self.config)
        self.decline_for(self.obstacle())
        exit.take_over_files()
        self.report = pasture.seal()
        self.decline_for(next(self.hazards(self.report.hazards), None))
        if not self.report.sealed:
            reason = self.report.reason
            self.decline_for(Finding(self.report.why or "unsealed", f"not sealed: {reason}"))
        self.seconds = {
            "collect": collected - self.started,
            "seal": time.perf_counter() - collected,
        }

    def decline_for(self, finding: Finding | None) -> None:
        """Leave, if something rules out forked workers."""
        if finding is not None:
            self.tear_down()  # a plain worker may take the same port
            self.decline(str(finding))
            exit.leave(0)

    def tear_down(self) -> None:
        """End what was set up once."""
        if (shared := getattr(self, "shared", None)) is not None:
            shared.tear_down()

    def hazards(self, hazards: Iterable[Hazard]) -> Iterator[Finding]:
        """The hazards that break a worker and are not allowed."""
        return (one for one in findings_of(hazards) if one.kind not in self.allowed)

    def _call_when_collected(self, step: Callable[[], None]) -> None:
        """Take a step when all is collected, and no plug-in has changed the list yet.

        Hooks of conftests in folders would come before any hook of ours, so this takes the place of
        the check that pytest calls there.
        """
        manager: Any = self.config.pluginmanager

        def check_pending() -> None:
            del manager.check_pending
            manager.check_pending()
            step()

        manager.check_pending = check_pending

    def _keep(self) -> None:
        """Seal, and stay in the process that is kept; returns in one for each run."""
        keeper, session = self.keeper, self.interactor.session
        assert keeper is not None
        if session.testsfailed:
            self.notes.append("not kept: there were errors in the collection")
        else:
            self.share()
            keeper.look(self)
            self.seal()
            try:
                if keeper.serve(self):
                    self._take_up(keeper)
            except OSError as error:
                self.notes.append(f"not kept: {error.strerror or error}")
        vars(self.config.option).update(keeper.hello.options)
        _as_worker(self.config, self.input, self.first.basetemp)
        cards.take("in_run", self.config)
        _renew_cache(self.config, session)
        self.input.read.clear()

    def _take_up(self, keeper: Keeper) -> None:
        started = time.perf_counter()
        first = self.control.receive()
        if not isinstance(first, Wanted):
            exit.leave(0)
        self.first, self.first_sockets = first, self.control.descriptors
        if (key := self.input.differs(first.workerinput)) is not None:
            self.decline_for(
                Finding("worker-input", f"workerinput[{key!r}] was read for an earlier run")
            )
        self.input.clear()
        self.input.update(first.workerinput)
        self.interactor.testrunuid = first.workerinput["testrunuid"]
        self.kept_s = time.monotonic() - keeper.since
        if keeper.changes:
            self.lookout.start()
            keeper.collected.update(keeper.changes)
            self.again = len(keeper.changes.files)
        self.seconds = {"collect": time.perf_counter() - started, "seal": 0.0}

    @property
    def allowed(self) -> tuple[str, ...]:
        return tuple(self.config.getini("pasture_allow"))

    def obstacle(self) -> Finding | None:
        """Why no worker can be forked from this collection."""
        self.loops, is_idle = loops.idle(self.loops)
        findings = [*self.lookout.findings, *processes(self.lookout.services)]
        if not is_idle:
            findings.append(Finding("event-loop", "an event loop or selector has an epoll open"))
        return next((one for one in findings if one.kind not in self.allowed), None)

    def decline(self, reason: str, id: str | None = None) -> None:
        with suppress(OSError):
            self.control.send(Declined(reason, id))

    def serve(self) -> tuple[Wanted, list[int]]:
        """Fork a worker for each message; returns in the workers."""
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        wanted, descriptors = self.first, self.first_sockets
        while True:
            if self.fork(wanted, descriptors):
                self.shared.disown()
                signal.signal(signal.SIGINT, interrupt)
                return wanted, descriptors
            message = self.next_message()
            if not isinstance(message, Wanted):
                self.shared.tear_down()
                exit.leave(0)
            wanted, descriptors = message, self.control.descriptors

    def fork(self, wanted: Wanted, descriptors: list[int]) -> bool:
        """Whether this is the worker."""
        key = self.input.differs(wanted.workerinput)
        pid = None
        if key is not None and "worker-input" not in self.allowed:
            self.decline(f"workerinput[{key!r}] was read before the fork (worker-input)", wanted.id)
        else:
            try:
                pid = os.fork()
            except OSError as error:
                self.decline(f"it cannot fork: {error}", wanted.id)
        if pid != 0:
            for descriptor in descriptors:
                os.close(descriptor)
            if pid is not None:
                self.children[os.pidfd_open(pid)] = pid
            return False
        with suppress(OSError):  # the controller is gone: its end of the worker's socket says so
            self.control.send(Forked(wanted.id, os.getpid()))
        self.control.close()
        for other in self.children:
            os.close(other)
        return True

    def next_message(self) -> object:
        """Wait for a message, and for children; None once all other processes are gone."""
        poll = select.poll()
        poll.register(self.control.socket, select.POLLIN)
        for child in self.children:
            poll.register(child, select.POLLIN)
        controller_is_there = True
        while self.children or controller_is_there:
            for descriptor, _ in poll.poll():
                if descriptor in self.children:
                    poll.unregister(descriptor)
                    os.waitpid(self.children.pop(descriptor), 0)
                    os.close(descriptor)
                elif (message := self.control.receive()) is not None:
                    return message
                else:
                    poll.unregister(descriptor)
                    controller_is_there = False
        return None


def _as_worker(config: pytest.Config, workerinput: WorkerInput, basetemp: str | None) -> None:
    """Do what xdist's `remote` does in a worker before it is configured."""
    if config.option.numprocesses:
        config.option.tx = []
    remote.setup_config(config, basetemp and f"{basetemp}/popen-mold")
    config._parser.prog = Path(workerinput["mainargv"][0]).name
    config.workerinput = workerinput  # type: ignore[attr-defined]
    config.workeroutput = {}  # type: ignore[attr-defined]
    sys.argv = ["-c"]
    # As that of `python -c`: children by spawn would load pytest's own again.
    sys.modules["__main__"] = made_module()
    os.environ["PYTEST_XDIST_TESTRUNUID"] = workerinput["testrunuid"]
    os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(workerinput["workercount"])


def processes(services: Set[int] = frozenset()) -> tuple[Finding, ...]:
    """Programs that this process has started, which no child can wait for."""
    started = set(children(os.getpid())) - services
    commands = (" ".join(command_of(pid)) for pid in started)
    return tuple(
        Finding("process", f"a program was started before the fork: {command[:60]}")
        for command in commands
        if "multiprocessing." not in command
    )


def _renew_cache(config: pytest.Config, session: pytest.Session) -> None:
    """Have pytest read again which tests failed, and with which options."""
    manager = config.pluginmanager
    for name in _FROM_CACHE:
        if (plugin := manager.get_plugin(name)) is not None:
            manager.unregister(plugin)
    if manager.hasplugin("cacheprovider"):
        cacheprovider.pytest_configure(config)
    if manager.hasplugin("stepwise"):
        stepwise.pytest_configure(config)
        if (plugin := manager.get_plugin("stepwiseplugin")) is not None:
            plugin.session = session
