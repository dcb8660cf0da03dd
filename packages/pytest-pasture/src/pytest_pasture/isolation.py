"""`--fork-each`: processes for tests, forked from a worker that runs none itself.

Each test has one of its own, or the tests of a module that follow each other have one together.
Owns the fork, and what of a test crosses back: the messages that it sends to the controller, whole
ones only, and whether it ended. A test that ends the interpreter, changes modules, the environment
or the directory does so in a process that no other test, or none of another module, sees.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time
import warnings
from contextlib import suppress
from typing import NoReturn

import pytest
from _pytest.tmpdir import TempPathFactory

from pasture.sealing import exit
from pytest_pasture import cards, exits
from pytest_pasture.events import HEADER, Interactor

_ORDER = struct.Struct("ii")  # a test, and the one that follows it in the same process, or _NONE
_NONE = -1
_ENDED = HEADER.pack(126, 0)  # no event: a test has ended, and another one follows
_STOPPED = HEADER.pack(127, 0)  # a test has ended, and is the last one of the run
_MARKS = _ENDED, _STOPPED
_CHUNK_BYTES = 1 << 16


class Apart:
    """Runs the tests of a worker in processes of their own."""

    def __init__(self, interactor: Interactor, by: str) -> None:
        assert interactor.io is not None
        self.interactor = interactor
        self.io = interactor.io
        self.by_module = by == "module"
        self.child: _Child | None = None
        # What tests would make again, each for itself, and so delete each other's.
        folders = getattr(interactor.config, "_tmp_path_factory", None)
        if isinstance(folders, TempPathFactory):
            folders.getbasetemp()

    def run_one_test(self) -> None:
        """In the place of `WorkerInteractor.run_one_test` (xdist 3.8 remote.py)."""
        interactor = self.interactor
        interactor.item_index = interactor.nextitem_index
        interactor.nextitem_index = interactor.torun.get()
        item = interactor.session.items[interactor.item_index]
        start = time.perf_counter()
        messages, mark, status = self._run(item)
        self.io.write(messages)
        if mark == _STOPPED:
            interactor.session.shouldfail = f"stopping after {item.nodeid}"
        elif status:
            interactor.config.hook.pytest_runtest_logreport(report=_crash(item, status))
        duration = time.perf_counter() - start
        interactor.sendevent(
            "runtest_protocol_complete", item_index=interactor.item_index, duration=duration
        )

    def _run(self, item: pytest.Item) -> tuple[bytes, bytes | None, int]:
        """What the process that runs this test sends, how it ends that, and its exit status."""
        following = self.interactor.nextitem_index
        if not (
            self.by_module
            and isinstance(following, int)
            and self.interactor.session.items[following].path == item.path
        ):
            following = _NONE
        order = self.interactor.item_index, following
        if self.child is None:
            self.child = self._fork(order)
        else:
            self.child.send(order)
        try:
            messages, mark = self.child.read()
        except BaseException:
            with suppress(OSError):
                os.kill(self.child.pid, signal.SIGKILL)
            self.child.wait()
            raise
        status = 0
        if mark != _ENDED:
            status = self.child.wait()
            self.child = None
        return messages, mark, status

    def _fork(self, order: tuple[int, int]) -> _Child:
        output, theirs = os.pipe()
        orders, ours = os.pipe()
        # No thread of ours is in the midst of a message.
        with self.io.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            os.close(output)
            os.close(ours)
            self._be_child(order, orders, theirs)
        os.close(theirs)
        os.close(orders)
        return _Child(pid, output, ours)

    def _be_child(self, order: tuple[int, int], orders: int, output: int) -> NoReturn:
        """Run tests, the last one as the last of its session, and leave."""
        status = 1
        interactor = self.interactor
        session = interactor.session
        try:
            exits.leave_to_parent()
            self.io.divert(output)
            while True:
                index, following = order
                interactor.item_index = index
                nextitem = None if following == _NONE else session.items[following]
                item = session.items[index]
                interactor.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
                if session.shouldfail or session.shouldstop or nextitem is None:
                    break
                self.io.write(_ENDED)
                if not (data := os.read(orders, _ORDER.size)):
                    break
                order = _ORDER.unpack(data)
            session._setupstate.teardown_exact(None)
            cards.take("after_test", interactor.config)
            if session.shouldfail or session.shouldstop:
                self.io.write(_STOPPED)
            status = 0
        except BaseException:
            pass  # the worker reports that the test did not end
        exit.leave(status)


class _Child:
    """A process that runs tests, seen from its worker."""

    def __init__(self, pid: int, output: int, orders: int) -> None:
        self.pid = pid
        self._output = output
        self._orders = orders
        self._process = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._process, select.POLLIN)
        self._poll.register(output, select.POLLIN)
        os.set_blocking(output, False)

    def send(self, order: tuple[int, int]) -> None:
        with suppress(BrokenPipeError):  # it has ended: so does what is read of it
            os.write(self._orders, _ORDER.pack(*order))

    def read(self) -> tuple[bytes, bytes | None]:
        """Whole messages of a test, and the mark that follows them.

        The process has ended where there is no mark: one of its own may hold the pipe.
        """
        data = bytearray()
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll()]
            while self._output in ready or self._process in ready:
                try:
                    chunk = os.read(self._output, _CHUNK_BYTES)
                except BlockingIOError:
                    break
                if not chunk:
                    return _whole(data)
                data += chunk
                if data.endswith(_ENDED) and (found := _whole(data))[1] is not None:
                    return found
            if self._process in ready:
                return _whole(data)

    def wait(self) -> int:
        """Its exit status, once it has ended; negative for a signal."""
        for descriptor in (self._output, self._orders, self._process):
            os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _whole(data: bytearray) -> tuple[bytes, bytes | None]:
    """The messages, and the mark that ends them."""
    at = 0
    while at + HEADER.size <= len(data):
        header = bytes(data[at : at + HEADER.size])
        if header in _MARKS:
            return bytes(data[:at]), header
        _, length = HEADER.unpack(header)
        if at + HEADER.size + length > len(data):
            break
        at += HEADER.size + length
    return bytes(data[:at]), None


def _crash(item: pytest.Item, status: int) -> pytest.TestReport:
    """As xdist reports a worker that crashed (dsession.py, handle_crashitem)."""
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=f"the process of {item.nodeid!r} ended with {how}",
        when="???",  # type: ignore[arg-type]
    )
