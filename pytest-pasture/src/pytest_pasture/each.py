"""`--fork-each`: a process for each test, forked from a worker that runs none itself.

Owns the fork, and what of a test crosses back: the messages that it sends to the controller, whole
ones only, and whether it ended. A test that ends the interpreter, changes modules, the environment
or the directory does so in a process that no other test sees.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from _pytest.tmpdir import TempPathFactory

from pytest_pasture import cards, ends

if TYPE_CHECKING:
    from pytest_pasture.worker import SocketIO

_HEADER = struct.Struct("!bii")  # execnet's: code, channel, length of what follows
_CHUNK_BYTES = 1 << 16
_STOPPED = 3


def prepare(config: pytest.Config) -> None:
    """Make what tests would make anew, each for itself, and so delete each other's."""
    folders = getattr(config, "_tmp_path_factory", None)
    if isinstance(folders, TempPathFactory):
        folders.getbasetemp()


def run_one_test(interactor: Any, io: SocketIO) -> None:
    """In the place of `WorkerInteractor.run_one_test` (xdist 3.8 remote.py)."""
    interactor.item_index = interactor.nextitem_index
    interactor.nextitem_index = interactor.torun.get()
    item = interactor.session.items[interactor.item_index]
    start = time.perf_counter()
    ours, theirs = os.pipe()
    with io.lock, warnings.catch_warnings():  # no thread of ours is in the midst of a message
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(ours)
        _run(interactor, item, io, theirs)
    os.close(theirs)
    try:
        messages = _read(pid, ours)
    except BaseException:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(ours)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    io.write(messages)
    if status == _STOPPED:
        interactor.session.shouldfail = f"stopping after {item.nodeid}"
    elif status:
        interactor.config.hook.pytest_runtest_logreport(report=_crash(item, status))
    duration = time.perf_counter() - start
    interactor.sendevent(
        "runtest_protocol_complete", item_index=interactor.item_index, duration=duration
    )


def _run(interactor: Any, item: pytest.Item, io: SocketIO, end: int) -> NoReturn:
    """In the child: run the test as the last one of its session, and leave."""
    status = 1
    try:
        ends.leave_to_parent()
        io.divert(end)
        interactor.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        cards.after_test(interactor.config)
        session = interactor.session
        status = _STOPPED if session.shouldfail or session.shouldstop else 0
    except BaseException:
        pass  # the worker reports that the test did not end
    ends.leave(status)


def _read(pid: int, end: int) -> bytes:
    """Whole messages of a child, until it has ended: a process of its own may hold the pipe."""
    data = bytearray()
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(end, select.POLLIN)
    os.set_blocking(end, False)
    try:
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            while end in ready or process in ready:
                try:
                    chunk = os.read(end, _CHUNK_BYTES)
                except BlockingIOError:
                    break
                if not chunk:
                    return _whole(data)
                data += chunk
            if process in ready:
                return _whole(data)
    finally:
        os.close(process)


def _whole(data: bytearray) -> bytes:
    at = 0
    while at + _HEADER.size <= len(data):
        end = at + _HEADER.size + _HEADER.unpack_from(data, at)[2]
        if end > len(data):
            break
        at = end
    return bytes(data[:at])


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
