"""The workers' reports, next to execnet's channel: frames that the controller reads many at a time.

A frame is in the kernel's hands when `send` returns, so a worker that dies has lost none, and a
worker waits for no reader. Events of a test that passed are a few fields, out of which the
controller makes the report that pytest would have made of it. All others, and those that another
plug-in serializes, are execnet's own bytes. Within a worker their order is kept; its end comes
after them.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from execnet.gateway_base import dumps_internal, loads_internal
from xdist import remote, workermanage
from xdist.dsession import DSession

from pytest_pasture.gateway import SocketIO

HEADER = struct.Struct("!BI")  # kind, length of what follows
EVENT, IDS, START, REPORT, FINISH, COMPLETE = range(6)

_INTERVAL_S = 0.01
"""How long the controller lets workers write before it reads again."""

_CHUNK_BYTES = 1 << 20
_FIELDS = vars(pytest.TestReport("", ("", None, ""), {}, "passed", None, "setup")).keys()

_LISTS = ("sections", "user_properties")

_LOCATIONS = [str, int, str], [str, type(None), str]

Location = tuple[str, int | None, str]


def frame(kind: int, body: bytes) -> bytes:
    return HEADER.pack(kind, len(body)) + body


def frames(events: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    """The frames of a collection's messages."""
    return b"".join(
        frame(IDS, marshal.dumps(values["ids"]))
        if name == "collectionfinish" and _are_strings(values["ids"])
        else frame(EVENT, dumps_internal((name, values)))
        for name, values in events
    )


def _are_strings(values: Any) -> bool:
    return set(map(type, values)) <= {str}


def are_pytests(hook: Any) -> bool:
    """Whether only pytest serializes a report."""
    found = hook.get_hookimpls()
    last, answer = _ANSWERS.get(hook, ((), True))
    if found != last:
        answer = all(one.function.__module__.startswith("_pytest.") for one in found)
        _ANSWERS[hook] = found, answer
    return answer


_ANSWERS: dict[Any, tuple[Any, bool]] = {}


class Interactor(remote.WorkerInteractor):  # type: ignore[misc]
    """xdist's interactor, whose events go into frames once it has a connection."""

    io: SocketIO | None = None
    _ids: list[str] = []  # noqa: RUF012 - as the controller knows them
    _started: tuple[str, Location] | None = None  # the test, as the controller knows it
    _index = -1
    _passed: dict[str, Any] | None = None  # fields of the report of a test that passed
    _knows_keywords = False  # the controller

    def sendevent(self, name: str, **kwargs: Any) -> None:
        if self.io is None:
            super().sendevent(name, **kwargs)
            if name == "collectionfinish":
                self._ids = kwargs["ids"] if _are_strings(kwargs["ids"]) else []
        elif name == "runtest_protocol_complete":
            self.io.write(
                frame(COMPLETE, marshal.dumps((kwargs["item_index"], kwargs["duration"])))
            )
        else:
            self.log("sending", name, kwargs)
            self.io.write(frame(EVENT, dumps_internal((name, kwargs))))

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str, location: Location) -> None:
        self._started = self._passed = None
        index = self.item_index
        is_plain = type(location) is tuple and [*map(type, location)] in _LOCATIONS
        if self.io is None or self._ids[index : index + 1] != [nodeid] or not is_plain:
            super().pytest_runtest_logstart(nodeid, location)
            return
        self._started, self._index, self._knows_keywords = (nodeid, location), index, False
        self.io.write(frame(START, marshal.dumps((index, *location))))

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str, location: Location) -> None:
        if self.io is None or (nodeid, location) != self._started:
            super().pytest_runtest_logfinish(nodeid, location)
        else:
            self.io.write(frame(FINISH, b""))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.io is None or not self.has_only_passed(report):
            super().pytest_runtest_logreport(report)
            return
        keywords = None if self._knows_keywords else dict(report.keywords)
        self._knows_keywords = True
        fields = report.when, report.duration, report.start, report.stop, keywords
        self.io.write(frame(REPORT, marshal.dumps(fields)))

    def has_only_passed(self, report: pytest.TestReport) -> bool:
        """Whether a report has only times and fields that the controller knows."""
        if self._started is None or type(report) is not pytest.TestReport:
            return False
        fields = vars(report)
        if not type(report.duration) is type(report.start) is type(report.stop) is float:
            return False
        if (passed := self._passed) is not None and self._index == self.item_index:
            passed["when"], passed["duration"] = report.when, report.duration
            passed["start"], passed["stop"] = report.start, report.stop
            if fields == passed:
                return are_pytests(self.config.hook.pytest_report_to_serializable)
        if not (
            report.outcome == "passed"
            and report.longrepr is None
            and not report.sections
            and not report.user_properties
            and fields.keys() == _FIELDS
            and (report.nodeid, report.location) == self._started
            and self._index == self.item_index
            and self.session.items[self._index].nodeid == report.nodeid
            and set(map(type, report.keywords.values())) <= {int}
        ):
            return False
        self._knows_keywords = False
        self._passed = {**fields, **{name: [] for name in _LISTS}}
        self._passed["keywords"] = dict(report.keywords)
        return are_pytests(self.config.hook.pytest_report_to_serializable)


class Node(workermanage.WorkerController):  # type: ignore[misc]
    """xdist's node, which reads frames, too."""

    events: Events
    _has_left = False  # its last frames may still be read

    @property
    def shutting_down(self) -> bool:
        """Whether no test can be sent to it."""
        return self._has_left or bool(super().shutting_down)

    def process_from_remote(self, eventcall: Any) -> None:
        """In a thread of execnet's: all events of a plain worker, the end of a forked one."""
        if eventcall is workermanage.Marker.END:
            self._has_left = True
            self.events.end(self)
        else:
            super().process_from_remote(eventcall)

    def process_end(self) -> None:
        super().process_from_remote(workermanage.Marker.END)


class _Stream:
    def __init__(self, node: Node, events: Events) -> None:
        self.node = node
        self._events = events
        self._buffer = bytearray()
        self._at = 0
        self._ids: list[str] = []
        self._test: tuple[str, Location, int] = "", ("", None, ""), -1
        self._keywords: dict[str, Any] = {}
        self._passed: dict[str, Any] | None = None  # fields of a report of this test

    def take(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[str, dict[str, Any]] | None:
        """The next event for xdist's loop; None if no frame is left.

        What a test that passed has reported goes right to the hooks: nothing follows from it there.
        """
        buffer, session = self._buffer, self._events.session
        while not (decoded := self._events.decoded):
            at = self._at + HEADER.size
            if at > len(buffer):
                break
            kind, length = HEADER.unpack_from(buffer, self._at)
            if at + length > len(buffer):
                break
            body = bytes(buffer[at : at + length])
            self._at = at + length
            if kind == REPORT:
                session.worker_testreport(self.node, self._report(*marshal.loads(body)))
            elif kind == START:
                self._start(*marshal.loads(body))
                nodeid, location, _ = self._test
                session.worker_logstart(self.node, nodeid, location)
            elif kind == FINISH:
                nodeid, location, _ = self._test
                session.worker_logfinish(self.node, nodeid, location)
            elif kind == COMPLETE:
                index, duration = marshal.loads(body)
                values = {"node": self.node, "item_index": index, "duration": duration}
                return "runtest_protocol_complete", values
            elif kind == IDS:
                self._ids = self._events.ids_of(body)
                return "collectionfinish", {"node": self.node, "ids": list(self._ids)}
            else:
                self.node.putevent = decoded.append
                self.node.process_from_remote(loads_internal(body))
        if decoded:
            return decoded.popleft()
        del buffer[: self._at]
        self._at = 0
        return None

    def _start(self, index: int, path: str, line: int | None, domain: str) -> None:
        self._test = self._ids[index], (self._events.known(path), line, domain), index
        self._passed = None

    def _report(
        self, when: Any, duration: float, start: float, stop: float, keywords: Any
    ) -> pytest.TestReport:
        """The report that pytest makes of xdist's data."""
        known = self._events.known
        if keywords is not None:
            self._keywords = {known(name): value for name, value in keywords.items()}
        hook = self.node.config.hook.pytest_report_from_serializable
        is_pytests = are_pytests(hook)
        if self._passed is not None and is_pytests:
            report = pytest.TestReport.__new__(pytest.TestReport)
            fields = report.__dict__ = dict(self._passed)
            fields["when"], fields["keywords"] = when, dict(self._keywords)
            fields["duration"], fields["start"], fields["stop"] = duration, start, stop
            fields["user_properties"], fields["sections"] = [], []
            return report
        nodeid, location, index = self._test
        data = {
            "nodeid": nodeid,
            "location": location,
            "keywords": dict(self._keywords),
            "outcome": "passed",
            "longrepr": None,
            "when": when,
            "user_properties": [],
            "sections": [],
            "duration": duration,
            "start": start,
            "stop": stop,
            "$report_type": "TestReport",
            "item_index": index,
            "worker_id": self.node.workerinput["workerid"],
            "testrun_uid": self.node.workerinput["testrunuid"],
        }
        if is_pytests:
            report = pytest.TestReport(**data)
            # A copy of this report takes half the memory of one with fields added one by one.
            self._passed = {**vars(report), "node": self.node}
            report.__dict__ = dict(self._passed)
            return report
        made: pytest.TestReport = hook(config=self.node.config, data=data)
        return made


class Events(SimpleQueue[Any]):
    """The queue of xdist's session, which a thread feeds with what workers have written."""

    def __init__(self, session: DSession) -> None:
        self.session = session
        self.decoded: deque[tuple[str, dict[str, Any]]] = deque()
        self._taken: _Stream | None = None  # its frames have been read
        self._streams: dict[int, tuple[socket.socket, _Stream]] = {}
        self._ended: deque[Node] = deque()
        self._ids: tuple[bytes, list[str]] = b"", []
        self._strings: dict[str, str] = {}
        self._poll = select.poll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        self._thread: threading.Thread | None = None
        self._is_writing = False  # hooks, of tests that have passed
        self._reporter: TerminalReporter | None = None
        if isinstance(session.terminal, TerminalReporter) and not session.terminal.isatty:
            self._reporter = session.terminal
            self._reporter.flush = self._flush  # type: ignore[method-assign]

    def get(self, block: bool = True, timeout: float | None = None) -> tuple[str, dict[str, Any]]:
        """The next event for xdist's loop; `queue.Empty` after `timeout` seconds."""
        while True:
            if self._taken is not None:
                event = self._next(self._taken)
                if event is not None:
                    return event
                self._taken = None
            if self.decoded:
                return self.decoded.popleft()
            one = super().get(block, timeout)
            if isinstance(one[0], str):  # a plain worker's event
                found: tuple[str, dict[str, Any]] = one
                return found
            target, data = one
            if data is None:
                target.process_end()
            else:
                target.take(data)
                self._taken = target

    def _next(self, stream: _Stream) -> tuple[str, dict[str, Any]] | None:
        """A node's next event; the terminal shows earlier ones at once."""
        self._is_writing = True
        try:
            event = stream.next()
        finally:
            self._is_writing = False
        if event is None or event[0] != "runtest_protocol_complete":
            self._flush()
        return event

    def _flush(self) -> None:
        """Stands in for the terminal reporter's where the output is not a terminal."""
        if self._reporter is not None and not self._is_writing:
            self._reporter._tw.flush()

    def read(self, node: Node, end: socket.socket) -> None:
        """Read a node's frames, and close its end."""
        node.events = self
        self._streams[end.fileno()] = end, _Stream(node, self)
        self._poll.register(end, select.POLLIN)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pytest-pasture-events")
            self._thread.daemon = True
            self._thread.start()

    def end(self, node: Node) -> None:
        """Note that a node has written its last frame."""
        self._ended.append(node)
        os.eventfd_write(self._wake, 1)

    def ids_of(self, body: bytes) -> list[str]:
        """The tests that a worker has collected. All have the same, as a rule, and share them."""
        if body != self._ids[0]:
            self._ids = body, marshal.loads(body)
        return self._ids[1]

    def known(self, string: str) -> str:
        """One object for equal strings: names of files and of keywords repeat."""
        return self._strings.setdefault(string, string)

    def _run(self) -> None:
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            for descriptor in ready - {self._wake}:
                self._read(descriptor)
            if self._wake in ready:
                os.eventfd_read(self._wake)
                self._take_ends()
            time.sleep(_INTERVAL_S)

    def _read(self, descriptor: int) -> bool:
        """Read frames; returns whether more may follow."""
        end, stream = self._streams[descriptor]
        try:
            data = end.recv(_CHUNK_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.put((stream, data))
            return True
        self._poll.unregister(descriptor)
        del self._streams[descriptor]
        end.close()
        return False

    def _take_ends(self) -> None:
        while self._ended:
            node = self._ended.popleft()
            for descriptor, (_, stream) in list(self._streams.items()):
                while stream.node is node and self._read(descriptor):
                    pass
            self.put((node, None))
