"""A worker after the fork: what must be its own, and its end of execnet's connection.

xdist's `WorkerInteractor` and execnet's `WorkerGateway` do their work unchanged. The session has
been collected, so the source that the controller sends is not executed: the first task is the rest
of the session.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.tmpdir import TempPathFactory
from execnet import gateway_base

from pasture.fork_safety import generators
from pasture.proc.smaps import own_private_bytes
from pasture.sealing import exit
from pytest_pasture import cards, each, ends, loops, streams
from pytest_pasture.control import Wanted
from pytest_pasture.once import WORKER

if TYPE_CHECKING:
    from pytest_pasture.mold import Mold


class SocketIO:
    """execnet's view of one end of a pair of sockets."""

    def __init__(self, end: socket.socket, execmodel: gateway_base.ExecModel) -> None:
        self.execmodel = execmodel
        self.lock = threading.Lock()  # the thread that receives answers, too
        self._socket = end
        self._file = end.makefile("rb")
        self._diverted: int | None = None

    def read(self, numbytes: int, /) -> bytes:
        data = self._file.read(numbytes)
        if len(data) < numbytes:
            raise EOFError(f"expected {numbytes} bytes, got {len(data)}")
        return data

    def write(self, data: bytes, /) -> None:
        with self.lock:
            if self._diverted is None:
                self._socket.sendall(data)
                return
            left = memoryview(data)
            while left:
                left = left[os.write(self._diverted, left) :]

    def divert(self, descriptor: int) -> None:
        """Write there from now on."""
        self._diverted = descriptor

    def close_read(self) -> None:
        self._close(socket.SHUT_RD)

    def close_write(self) -> None:
        self._close(socket.SHUT_WR)

    def _close(self, how: int) -> None:
        try:
            self._socket.shutdown(how)
        except OSError:
            pass  # the other end is gone

    def wait(self) -> int | None:
        return None

    def kill(self) -> None: ...


class _Session:
    """The one task of a worker, in the place of execnet's pool of tasks."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def trigger_shutdown(self) -> None: ...

    def waitall(self, timeout: float | None = None) -> bool:
        return self.ended.wait(timeout)


class Gateway(gateway_base.WorkerGateway):
    """execnet's gateway of a worker, whose first task is the session that has been collected."""

    def __init__(self, io: SocketIO, id: str) -> None:
        super().__init__(io=io, id=id, _startcount=2)
        self._execpool: Any = _Session()
        self.tasks: SimpleQueue[gateway_base.Channel | None] = SimpleQueue()
        self._busy = False
        self._initreceive()

    def _local_schedulexec(self, channel: gateway_base.Channel, sourcetask: bytes) -> None:
        if self._busy:
            channel.close(gateway_base.MAIN_THREAD_ONLY_DEADLOCK_TEXT)
            return
        self._busy = True
        self.tasks.put(channel)

    def _terminate_execution(self) -> None:
        self.tasks.put(None)
        super()._terminate_execution()

    def end(self) -> None:
        self._execpool.ended.set()
        self.join()


class Worker:
    """This process, from its fork to its end."""

    def __init__(self, mold: Mold, wanted: Wanted, descriptor: int) -> None:
        self.forked = time.perf_counter()
        self.first_test: float | None = None
        self.mold = mold
        self.config = mold.config
        self.wanted = wanted
        self.socket = socket.socket(fileno=descriptor)

    def run_tests(self) -> object:
        """Take up the session where the mold left it; returns when no test is left."""
        config = self.config
        ends.leave_to_parent()
        if self.mold.keeper is not None:
            os.setpgid(0, 0)  # the controller sends its interrupts to the group
        streams.renew(config)
        loops.renew(self.mold.loops)
        io = SocketIO(self.socket, gateway_base.get_execmodel("main_thread_only"))
        self.gateway = Gateway(io, f"{self.wanted.id}-worker")
        channel = self.gateway.tasks.get()
        if channel is None:  # the controller has gone
            exit.leave(0)
        self.channel = channel
        workerinput, _, options, _ = channel.receive()
        self.identify(workerinput, options.get("basetemp"))
        generators.renew()  # a process that is kept forks another one for each run
        cards.in_worker(config)
        interactor = self.mold.interactor
        interactor.workerid = self.wanted.id
        interactor.log.name = f"worker-{self.wanted.id}"
        interactor.channel = channel
        config.pluginmanager.register(self, "pasture-worker")
        for event in self.mold.recorder.events:
            channel.send(event)
        if by := config.getoption("fork_each"):
            interactor.run_one_test = each.Apart(interactor, io, by).run_one_test
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
