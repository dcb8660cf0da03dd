"""`--fork-each`: a process for each test, forked from a worker that runs none itself.

Owns the fork, and a test's way back: its complete messages to the controller, and whether it ended.
A test that ends the interpreter, changes modules, the environment or the directory does so in a
process that no other test sees.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from contextlib import suppress
from typing import NoReturn

import pytest
from _pytest.tmpdir import TempPathFactory

from pasture.sealing import exit
from pytest_pasture import cards, exits
from pytest_pasture.events import HEADER, Interactor

_STOPPED = HEADER.pack(127, 0)  # not an event: a test has ended, and is the last one of the run
_CHUNK_BYTES = 1 << 16


class Apart:
    """Runs the tests of a worker in processes of their own."""

    def __init__(self, interactor: Interactor) -> None:
        assert interactor.io is not None
        self.interactor = interactor
        self.io = interactor.io
        # What tests would make again, each for itself, and so delete each other's.
        folders = getattr(interactor.config, "_tmp_path_factory", None)
        if isinstance(folders, TempPathFactory):
            folders.getbasetemp()

    def run_one_test(self) -> None:
        """Replaces `WorkerInteractor.run_one_test` (xdist 3.8 remote.py)."""
        interactor = self.interactor
        interactor.item_index = interactor.nextitem_index
        interactor.nextitem_index = interactor.torun.get()
        item = interactor.session.items[interactor.item_index]
        start = time.perf_counter()
        messages, is_last, status = self._run(item)
        self.io.write(messages)
        if is_last:
            interactor.session.shouldfail = f"stopping after {item.nodeid}"
        elif status:
            interactor.config.hook.pytest_runtest_logreport(report=_crash(item, status))
        duration = time.perf_counter() - start
        interactor.sendevent(
            "runtest_protocol_complete", item_index=interactor.item_index, duration=duration
        )

    def _run(self, item: pytest.Item) -> tuple[bytes, bool, int]:
        """The messages of the test's process, whether it ends the run, and its exit status."""
        output, theirs = os.pipe()
        # No thread of ours is in the midst of a message.
        with self.io.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            os.close(output)
            self._be_child(item, theirs)
        os.close(theirs)
        process = os.pidfd_open(pid)
        try:
            data = _read(output, process)
        except BaseException:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            raise
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(output)
            os.close(process)
        return *whole(data), status

    def _be_child(self, item: pytest.Item, output: int) -> NoReturn:
        """Run a test as the last one of its session, and leave."""
        status = 1
        session, config = self.interactor.session, self.interactor.config
        try:
            exits.leave_to_parent()
            self.io.divert(output)
            config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            session._setupstate.teardown_exact(None)
            cards.take("after_test", config)
            if session.shouldfail or session.shouldstop:
                self.io.write(_STOPPED)
            status = 0
        except BaseException:
            pass  # the worker reports that the test did not end
        exit.leave(status)


def _read(output: int, process: int) -> bytearray:
    """The output of a process until its end: a child of it may hold the pipe longer."""
    os.set_blocking(output, False)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(output, select.POLLIN)
    data, has_ended = bytearray(), False
    while not has_ended:
        has_ended = process in (descriptor for descriptor, _ in poll.poll())
        with suppress(BlockingIOError):
            while chunk := os.read(output, _CHUNK_BYTES):
                data += chunk
            return data
    return data


def whole(data: bytearray) -> tuple[bytes, bool]:
    """The complete messages, and whether the mark of the run's end follows them."""
    at = 0
    while at + HEADER.size <= len(data):
        header = bytes(data[at : at + HEADER.size])
        if header == _STOPPED:
            return bytes(data[:at]), True
        _, length = HEADER.unpack(header)
        if at + HEADER.size + length > len(data):
            break
        at += HEADER.size + length
    return bytes(data[:at]), False


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
