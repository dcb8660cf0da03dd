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
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from execnet.gateway_base import get_execmodel
from xdist import remote

import pasture
from pasture.proc.tree import children, command_of
from pytest_pasture import cards, ends, worker
from pytest_pasture.control import Channel, Declined, Forked, Sealed, Wanted
from pytest_pasture.once import Finding, LookOut, WorkerInput
from pytest_pasture.streams import detach


class Recorder:
    """Stands in for the channel of a worker until there is one."""

    def __init__(self) -> None:
        self.gateway = self
        self.execmodel = get_execmodel("main_thread_only")
        self.events: list[tuple[str, dict[str, Any]]] = []

    def send(self, event: tuple[str, dict[str, Any]]) -> None:
        self.events.append(event)


def run(config: pytest.Config, control: Channel, lookout: LookOut) -> NoReturn:
    """Be the mold, and each of its workers; right after the fork from the controller."""
    mold = Mold(config, control, lookout)
    status = 0
    try:
        ends.leave_to_parent()
        detach(config)
        mold.start()
    except BaseException as error:
        if mold.worker is None:
            mold.decline(f"{type(error).__name__} in the process that collects: {error}")
        else:
            status = 1
    try:
        if mold.worker is not None:
            mold.worker.finish()
    finally:
        ends.leave(status)


class Mold:
    """A plug-in of the session that collects."""

    worker: worker.Worker | None = None
    """In a worker: itself."""

    def __init__(self, config: pytest.Config, control: Channel, lookout: LookOut) -> None:
        self.config = config
        self.control = control
        self.lookout = lookout
        self.started = time.perf_counter()
        self.recorder = Recorder()
        self.children: dict[int, int] = {}  # descriptor of the process, pid

    def start(self) -> None:
        """Run the session; returns in a worker, at its end."""
        first = self.control.receive()
        if not isinstance(first, Wanted):
            return
        self.first, self.first_socket = first, self.control.descriptors[0]
        self.started = time.perf_counter()
        self.input = WorkerInput(first.workerinput)
        self.lookout.worker = first.id
        _as_worker(self.config, self.input, first.basetemp)
        self.interactor = remote.WorkerInteractor(self.config, self.recorder)
        remote.interactor = self.interactor
        self.input.read.clear()
        self.config.pluginmanager.register(self, "pasture-mold")
        status = self.config.hook.pytest_cmdline_main(config=self.config)
        if self.worker is None:
            self.decline(f"the session ended before its tests, with status {int(status)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if self.worker is None and excinfo.errisinstance(KeyboardInterrupt):
            with suppress(OSError):
                self.control.send(Declined("interrupted", interrupted=True))
            ends.leave()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        if self.worker is None:  # a collection that failed is reported by xdist's own workers
            self.decline(f"the collection ended with status {int(session.exitstatus)}")
            ends.leave()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        collected = time.perf_counter()
        self.lookout.stop()
        if (finding := self.obstacle()) is not None:
            self.decline(str(finding))
            ends.leave()
        cards.before_seal(self.config)
        report = pasture.seal()
        if (finding := _unsealed(report, self.allowed)) is not None:
            self.decline(str(finding))
            ends.leave()
        seconds = {
            "collect": collected - self.started,
            "seal": time.perf_counter() - collected,
        }
        self.control.send(Sealed(seconds, len(session.items), str(report)))
        wanted, descriptor = self.serve()
        self.worker = worker.Worker(self, wanted, descriptor)
        return self.worker.run_tests()

    @property
    def allowed(self) -> tuple[str, ...]:
        return tuple(self.config.getini("pasture_allow"))

    def obstacle(self) -> Finding | None:
        """Why no worker can be forked from this collection."""
        findings = (*self.lookout.findings, *processes())
        return next((one for one in findings if one.kind not in self.allowed), None)

    def decline(self, reason: str, id: str | None = None) -> None:
        with suppress(OSError):
            self.control.send(Declined(reason, id))

    def serve(self) -> tuple[Wanted, int]:
        """Fork a worker for each message; returns in the workers."""
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        wanted, descriptor = self.first, self.first_socket
        while True:
            if self.fork(wanted, descriptor):
                signal.signal(signal.SIGINT, interrupt)
                return wanted, descriptor
            message = self.next_message()
            if not isinstance(message, Wanted):
                ends.leave()
            wanted, descriptor = message, self.control.descriptors[0]

    def fork(self, wanted: Wanted, descriptor: int) -> bool:
        """Whether this is the worker."""
        key = self.input.differs(wanted.workerinput)
        if key is not None and "worker-input" not in self.allowed:
            self.decline(f"workerinput[{key!r}] was read before the fork (worker-input)", wanted.id)
            os.close(descriptor)
            return False
        try:
            pid = os.fork()
        except OSError as error:
            self.decline(f"it cannot fork: {error}", wanted.id)
            os.close(descriptor)
            return False
        if pid:
            os.close(descriptor)
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
    """What xdist's `remote` does in a worker before it is configured."""
    if config.option.numprocesses:
        config.option.tx = []
    remote.setup_config(config, basetemp and f"{basetemp}/popen-mold")
    config._parser.prog = Path(workerinput["mainargv"][0]).name
    config.workerinput = workerinput  # type: ignore[attr-defined]
    config.workeroutput = {}  # type: ignore[attr-defined]
    sys.argv = ["-c"]
    os.environ["PYTEST_XDIST_TESTRUNUID"] = workerinput["testrunuid"]
    os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(workerinput["workercount"])


def processes() -> tuple[Finding, ...]:
    """Programs that this process has started, which no child can wait for."""
    commands = (" ".join(command_of(pid)) for pid in children(os.getpid()))
    return tuple(
        Finding("process", f"this was started before the fork: {command[:60]}")
        for command in commands
        if "multiprocessing." not in command
    )


def _unsealed(report: pasture.SealReport, allowed: tuple[str, ...]) -> Finding | None:
    """Why the sealed process must not fork, or has not been sealed."""
    for hazard in report.hazards:
        if hazard.kind not in allowed:
            return Finding(hazard.kind, str(hazard))
    if not report.sealed:
        return Finding(report.why or "unsealed", f"not sealed: {report.reason}")
    return None
