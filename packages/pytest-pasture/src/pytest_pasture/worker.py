"""A worker after the fork: what must be its own.

xdist's `WorkerInteractor` and execnet's `WorkerGateway` do their work unchanged.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest
from _pytest.tmpdir import TempPathFactory
from execnet import gateway_base

from pasture.own_values import generators
from pasture.proc.smaps import own_private_bytes
from pasture.sealing import exit
from pytest_pasture import cards, exits, isolation, loops, streams
from pytest_pasture.collection import Collection
from pytest_pasture.control import Wanted
from pytest_pasture.gateway import Gateway, SocketIO
from pytest_pasture.lookout import WORKER


class ForkedWorker:
    """This process, from its fork to its end."""

    def __init__(self, mold: Collection, wanted: Wanted, descriptor: int, events: int) -> None:
        self.forked = time.perf_counter()
        self.first_test: float | None = None
        self.mold = mold
        self.config = mold.config
        self.wanted = wanted
        self.socket, self.events = (socket.socket(fileno=one) for one in (descriptor, events))

    def run_tests(self) -> object:
        """Take up the session where the mold left it; returns when no test is left."""
        config = self.config
        exits.leave_to_parent()
        if self.mold.is_kept:
            os.setpgid(0, 0)  # the controller sends its interrupts to the group
        streams.renew(config)
        loops.renew(self.mold.loops)
        model = gateway_base.get_execmodel("main_thread_only")
        io = SocketIO(self.socket, model)
        self.gateway = Gateway(io, f"{self.wanted.id}-worker")
        channel = self.gateway.tasks.get()
        if channel is None:  # the controller has gone
            exit.leave(0)
        self.channel = channel
        workerinput, _, options, _ = channel.receive()
        self.identify(workerinput, options.get("basetemp"))
        generators.renew()  # a kept process forks one for each run
        cards.take("in_worker", config)
        interactor = self.mold.interactor
        interactor.workerid = self.wanted.id
        interactor.log.name = f"worker-{self.wanted.id}"
        interactor.channel = channel
        config.pluginmanager.register(self, "pasture-worker")
        interactor.io = SocketIO(self.events, model)
        interactor.io.write(self.mold.collected)
        if config.getoption("fork_each"):
            interactor.run_one_test = isolation.Apart(interactor).run_one_test
        return interactor.pytest_runtestloop(self.mold.interactor.session)

    def identify(self, workerinput: dict[str, Any], basetemp: str | None) -> None:
        """Take the name, the input and the folder of this worker."""
        self.mold.input.clear()
        self.mold.input.update(workerinput)
        self.config.workerinput = workerinput  # type: ignore[attr-defined]
        os.environ[WORKER] = workerinput["workerid"]
        self.config.option.basetemp = basetemp
        folders = getattr(self.config, "_tmp_path_factory", None)
        if folders is not None:
            own = TempPathFactory.from_config(self.config, _ispytest=True)
            vars(folders).clear()
            vars(folders).update(vars(own))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        if self.first_test is None:
            self.first_test = time.perf_counter()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Send with xdist's last message what the report needs."""
        self.config.workeroutput["pasture"] = {  # type: ignore[attr-defined]
            "forked": self.forked,
            "first_test": self.first_test,
            "private_bytes": own_private_bytes(),
        }

    def finish(self) -> None:
        """Say that the session has ended, and wait until the controller says so, too."""
        self.channel.close()
        self.gateway.end()
