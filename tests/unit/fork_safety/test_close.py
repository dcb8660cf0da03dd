"""Closing what must not cross a fork, for libraries that may or may not be there."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Self
from weakref import WeakSet

import pytest

from pasture.fork_safety import close, kept
from pasture.fork_safety.close import before_fork, close_connections
from pasture.fork_safety.libraries import ddtrace, opentelemetry
from pasture.reasons import Reason

pytestmark = pytest.mark.interpreter


@pytest.fixture(autouse=True)
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hooks nor libraries but those that a test brings."""
    monkeypatch.setattr(close, "_hooks", [])
    for name in ("django.conf", "django.db", "django.core.cache", "sqlalchemy.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: object) -> None:
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**attributes))


def test_without_hooks_and_libraries_there_is_nothing_to_close() -> None:
    assert close_connections() == ({}, ())


def test_hooks_run_in_the_order_of_registration() -> None:
    ran: list[str] = []

    @before_fork
    def first() -> None:
        ran.append("first")

    before_fork(lambda: ran.append("second"))
    counts, problems = close_connections()
    assert ran == ["first", "second"]
    assert (counts, problems) == ({"hooks": 2}, ())
    first()
    assert ran[-1] == "first", "the decorator returns the function"


def test_a_failing_hook_is_reported_and_the_next_one_runs() -> None:
    ran: list[str] = []

    @before_fork
    def broken() -> None:
        raise OSError("no connection")

    before_fork(lambda: ran.append("next"))
    _, [problem] = close_connections()
    assert problem.endswith("broken: OSError: no connection")
    assert ran == ["next"]


class DjangoConnection:
    def __init__(self, alias: str, connected: bool, pools: Iterable[str] = ()) -> None:
        self.alias = alias
        self.connection: object = object() if connected else None
        self.closed = self.pool_closed = False
        self._connection_pools = dict.fromkeys(pools)

    def close_pool(self) -> None:
        self.pool_closed = True


class DjangoConnections(list[DjangoConnection]):
    def all(self, initialized_only: bool) -> Self:
        assert initialized_only, "a connection must not be made in order to close it"
        return self

    def close_all(self) -> None:
        for connection in self:
            connection.closed = True
            connection.connection = None


def install_django(
    monkeypatch: pytest.MonkeyPatch, connections: DjangoConnections, *, configured: bool = True
) -> None:
    install(monkeypatch, "django.conf", settings=SimpleNamespace(configured=configured))
    install(monkeypatch, "django.db", connections=connections)


def test_django_connections_are_closed_and_the_open_ones_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = DjangoConnections(
        [DjangoConnection("default", True), DjangoConnection("replica", False)]
    )
    install_django(monkeypatch, connections)
    assert close_connections() == ({"django_connections": 1}, ())
    assert all(connection.closed for connection in connections)


def test_a_pool_of_django_connections_is_closed_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pooled = DjangoConnection("default", True, pools=["default"])
    plain = DjangoConnection("other", True, pools=["default"])
    install_django(monkeypatch, DjangoConnections([pooled, plain]))
    close_connections()
    assert pooled.pool_closed
    assert not plain.pool_closed


class OldDjangoConnections(DjangoConnections):
    """Of Django before 4.1."""

    def all(self) -> Self:  # type: ignore[override]
        return self


def test_connections_and_caches_of_a_django_before_4_1_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = OldDjangoConnections([DjangoConnection("default", True)])
    install_django(monkeypatch, connections)
    closed = []
    caches = OldDjangoConnections([DjangoConnection("default", False)])
    install(monkeypatch, "django.core.cache", caches=caches, close_caches=lambda: closed.append(1))
    assert close_connections() == ({"django_connections": 1, "django_caches": 1}, ())
    assert connections[0].closed and closed


class InUse(DjangoConnection):
    """Open through a stream, whose other end shows what is sent, in a transaction or not."""

    def __init__(self, *, in_transaction: bool) -> None:
        super().__init__("default", True)
        self.stream, self.other_end = socket.socketpair()
        self.connection = self.stream
        self.in_atomic_block = in_transaction
        self.run_on_commit = [print]

    def close(self) -> None:
        self.closed = True
        self.connection = None


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    monkeypatch.setattr(kept, "_owner", 0)
    monkeypatch.setattr(kept, "_hooked", False)
    monkeypatch.setattr(kept, "_engines", WeakSet())
    monkeypatch.setattr(kept, "_parked", [])
    yield


@pytest.mark.usefixtures("nothing_kept")
def test_a_parent_that_works_keeps_its_connections_and_children_forget_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = InUse(in_transaction=False)
    install_django(monkeypatch, DjangoConnections([used]))
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    idle, far_end = socket.socketpair()
    pool = SimpleNamespace(
        _pool=SimpleNamespace(queue=[SimpleNamespace(dbapi_connection=idle)]),
        recreate=lambda: "new",
    )
    engine = Engine(pool)
    with used.stream, used.other_end, idle, far_end:
        assert close_connections(keep=True) == ({}, ())
        assert not used.closed and engine.disposals == 0
        inodes = {os.fstat(one.fileno()).st_ino for one in (used.stream, idle)}
        assert kept.sockets() == inodes
        kept.forget()
        assert used.connection is used.stream, "in the parent itself nothing is forgotten"
        monkeypatch.setattr(os, "getpid", lambda: -1)
        kept.forget()
        assert used.connection is None and used.run_on_commit == []
        assert engine.pool == "new" and engine.disposals == 0
        for one in (used.other_end, far_end):
            one.settimeout(10)
            assert one.recv(1) == b"", "nothing was sent, and the copy is closed"


@pytest.mark.usefixtures("nothing_kept")
def test_a_connection_in_a_transaction_is_not_closed_and_is_a_hazard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, idle = InUse(in_transaction=True), InUse(in_transaction=False)
    install_django(monkeypatch, DjangoConnections([used, idle]))
    with used.stream, used.other_end, idle.stream, idle.other_end:
        assert close_connections() == ({"django_connections": 1}, ())
        assert idle.closed and not used.closed
        [hazard] = kept.hazards()
    assert hazard.kind is Reason.TRANSACTION
    assert "Django's connection 'default'" in hazard.what


def test_a_django_that_is_not_configured_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = DjangoConnections([DjangoConnection("default", True)])
    install_django(monkeypatch, connections, configured=False)
    assert close_connections() == ({}, ())
    assert not connections[0].closed


class Engine:
    def __init__(self, pool: object, error: Exception | None = None) -> None:
        self.pool = pool
        self.error = error
        self.disposals = 0

    def dispose(self) -> None:
        self.disposals += 1
        if self.error:
            raise self.error


class QueuePool:
    pass


class StaticPool:
    pass


def test_sqlalchemy_engines_are_disposed_of(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    engine = Engine(QueuePool())
    assert close_connections() == ({"sqlalchemy_engines": 1}, ())
    assert engine.disposals == 1


def test_an_engine_of_an_in_memory_database_keeps_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    engine = Engine(StaticPool())
    assert close_connections() == ({}, ())
    assert engine.disposals == 0


def test_an_asynchronous_engine_gets_a_new_pool_where_its_loop_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    pool = SimpleNamespace(checkedin=lambda: 2, recreate=lambda: "new")
    engine: Any = Engine(pool)
    engine.dialect = SimpleNamespace(is_async=True)
    assert close_connections() == ({"sqlalchemy_engines": 1}, ())
    assert engine.pool == "new" and engine.disposals == 0


def test_an_asynchronous_engine_whose_pool_counts_no_idle_connections_gets_a_new_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # SQLAlchemy's NullPool and AssertionPool have no `checkedin`
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    engine: Any = Engine(SimpleNamespace(recreate=lambda: "new"))
    engine.dialect = SimpleNamespace(is_async=True)
    assert close_connections() == ({"sqlalchemy_engines": 1}, ())
    assert engine.pool == "new"


def test_an_engine_that_cannot_be_disposed_of_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "sqlalchemy.engine", Engine=Engine)
    engine = Engine(QueuePool(), OSError("server has gone"))
    counts, [problem] = close_connections()
    assert counts == {}
    assert problem == f"{engine!r}: OSError: server has gone"


def test_a_library_that_has_changed_is_reported_and_does_not_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, "django.conf", settings=SimpleNamespace(configured=True))
    install(monkeypatch, "django.db")
    _, [problem] = close_connections()
    assert problem.startswith("django_connections: AttributeError")


class Reader:
    """A metric reader of OpenTelemetry in the middle of an export."""

    def __init__(self, consumer: "Consumer") -> None:
        self._export_lock = threading.Lock()
        self._export_lock.acquire()
        self._collect = consumer.collect


class Consumer:
    """What counts for a reader: a stream that reports what is new, and one of sums."""

    def __init__(self) -> None:
        self.new = SimpleNamespace(_reset_on_collect=True, _attributes_aggregation={"a": 1})
        self.sums = SimpleNamespace(_reset_on_collect=False, _attributes_aggregation={"a": 1})
        self._reader_storages: dict[object, object] = {}

    def collect(self) -> None: ...


def test_a_metric_reader_of_opentelemetry_is_put_in_order_in_each_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooks: list[Callable[[], None]] = []
    monkeypatch.setattr(opentelemetry, "_hooked", False)
    monkeypatch.setattr(os, "register_at_fork", lambda after_in_child: hooks.append(after_in_child))
    consumer = Consumer()
    reader = Reader(consumer)
    streams = {"instrument": [consumer.new, consumer.sums]}
    consumer._reader_storages[reader] = SimpleNamespace(_instrument_view_instrument_matches=streams)
    provider = SimpleNamespace(_all_metric_readers=[reader, object()])
    install(monkeypatch, "opentelemetry.sdk.metrics._internal", MeterProvider=provider)
    close_connections()
    close_connections()
    assert reader._export_lock.locked() and consumer.new._attributes_aggregation, "in the parent"
    [in_child] = hooks
    in_child()
    assert not reader._export_lock.locked()
    assert consumer.new._attributes_aggregation == {}
    assert consumer.sums._attributes_aggregation == {"a": 1}


class Panic(BaseException):
    """What Rust's panics are in Python."""


def datadog(monkeypatch: pytest.MonkeyPatch, notes: list[str], *, runs: bool = True) -> None:
    def note_of(what: str) -> Callable[[], None]:
        return lambda: notes.append(what)

    def after_fork_parent() -> None:
        notes.append("start the runtime")
        raise Panic

    runtime = SimpleNamespace(
        before_fork=note_of("stop the runtime"), after_fork_parent=after_fork_parent
    )
    get_native_runtime = cache(lambda: runtime)
    if runs:
        get_native_runtime()
    hooks = SimpleNamespace(
        ddtrace_before_fork=note_of("stop the threads"),
        ddtrace_after_in_parent=note_of("start the threads"),
    )
    native = SimpleNamespace(get_native_runtime=get_native_runtime)
    monkeypatch.setitem(sys.modules, "ddtrace.internal.forksafe", hooks)
    monkeypatch.setitem(sys.modules, "ddtrace.internal.native_runtime", native)


STOP = ["stop the threads", "stop the runtime"]
START = ["start the runtime", "start the threads"]


def test_ddtrace_is_stopped_and_started_again_as_at_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    datadog(monkeypatch, notes)
    with pytest.raises(ValueError), ddtrace.stopped():
        assert notes == STOP
        raise ValueError
    assert notes == STOP + START


def test_a_runtime_of_ddtrace_that_was_not_started_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    datadog(monkeypatch, notes, runs=False)
    with ddtrace.stopped():
        pass
    assert notes == []


def test_a_version_of_ddtrace_without_one_of_the_functions_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    datadog(monkeypatch, notes)
    del sys.modules["ddtrace.internal.forksafe"].ddtrace_after_in_parent
    with ddtrace.stopped():
        pass
    assert notes == []
