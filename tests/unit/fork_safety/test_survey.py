"""What is open or running and does not survive a fork is found, and nothing else is."""

import _thread
import asyncio
import ctypes
import faulthandler
import gc
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from pasture.fork_safety import native_threads
from pasture.fork_safety.survey import survey, survey_without_garbage
from pasture.reasons import Hazard, Reason

before: set[Hazard] = set()
"""What is pytest's and its plugins' own."""


def found() -> list[Hazard]:
    return [hazard for hazard in survey() if hazard not in before]


def texts() -> list[str]:
    return [hazard.what for hazard in found()]


@pytest.fixture(autouse=True)
def only_what_the_test_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gevent.monkey", "grpc", "grpc._cython.cygrpc", "torch.cuda"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before.clear()
    before.update(survey())


@contextmanager
def running(name: str) -> Iterator[threading.Thread]:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name=name)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def test_a_process_with_nothing_open_is_safe() -> None:
    assert found() == []


def test_a_connection_is_named_by_its_other_end_and_gone_when_closed() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with closing(socket.create_connection(server.getsockname())):
            assert f"the connection to {address}" in texts()
            accepted, _ = server.accept()
            with closing(accepted):
                assert texts() == [], "it leads from this process to itself"
        assert texts() == [], "a listening socket is shared on purpose"


def test_the_connection_of_a_thread_that_has_ended_is_gone_after_a_collection() -> None:
    local = threading.local()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def connect() -> None:
            local.client = SimpleNamespace(socket=socket.create_connection(server.getsockname()))
            local.client.owner = local.client

        was_enabled = gc.isenabled()
        gc.disable()
        try:
            thread = threading.Thread(target=connect)
            thread.start()
            thread.join()
            assert len(texts()) == 1
            assert not set(survey_without_garbage()) - before
            held = SimpleNamespace(socket=socket.create_connection(server.getsockname()))
            assert set(survey_without_garbage()) - before
            held.socket.close()
        finally:
            if was_enabled:
                gc.enable()


def test_a_connection_through_a_named_socket_is_named_by_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "database")
    with (
        closing(socket.socket(socket.AF_UNIX)) as server,
        closing(socket.socket(socket.AF_UNIX)) as client,
    ):
        server.bind(path)
        server.listen()
        client.connect(path)
        assert texts() == [f"the connection to {path}"]


@pytest.mark.parametrize("url", ["http://localhost:{port}/", "unix://{path}"])
def test_connections_that_ddtraces_runtime_closes_at_each_fork_are_no_hazard(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "apm.socket")
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_connection(server.getsockname())),
        closing(socket.socket(socket.AF_UNIX)) as named,
        closing(socket.socket(socket.AF_UNIX)) as client,
    ):
        named.bind(path)
        named.listen()
        client.connect(path)
        everything = texts()
        port = server.getsockname()[1]
        agent = SimpleNamespace(trace_agent_url=url.format(port=port, path=path))
        settings = SimpleNamespace(config=agent)
        monkeypatch.setitem(sys.modules, "ddtrace.internal.settings._agent", settings)
        assert texts() == everything, "there is no runtime that would close it"
        monkeypatch.setitem(sys.modules, "ddtrace.internal.native_runtime", SimpleNamespace())
        assert len(everything) == 2
        assert len(texts()) == 1


def test_socket_pairs_and_datagrams_are_no_connections(tmp_path: Path) -> None:
    left, right = socket.socketpair()
    with closing(left), closing(right), closing(socket.socket(type=socket.SOCK_DGRAM)) as log:
        log.connect(("127.0.0.1", 9))
        assert texts() == []


def test_an_open_sqlite_file_is_found_and_one_in_memory_is_not(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE farm (name)")
        assert texts() == [f"the open SQLite database {path}"]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE farm (name)")
        assert texts() == []


def test_a_sqlite_file_may_be_shared_that_is_only_read_without_a_lock_or_an_index(
    tmp_path: Path,
) -> None:
    path = tmp_path / "proj.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE datum (name); INSERT INTO datum VALUES (1), (2)")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        assert database.execute("SELECT * FROM datum").fetchall() == [(1,), (2,)]
        assert texts() == []
        rows = database.execute("SELECT * FROM datum")
        next(rows)
        assert texts() == [f"the open SQLite database {path}"], "a lock that no child has"
        rows.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            reader.execute("SELECT * FROM datum").fetchall()
            database.close()  # the reader keeps its file open
            assert set(texts()) == {f"the open SQLite database {path}"}
            assert len(texts()) == 2, "the reader maps the log's index"


def test_threads_of_no_known_library_are_named_together() -> None:
    with running("lookout"):
        assert texts() == ["thread lookout"]
        with running("second"):
            assert texts() == ["each of the threads lookout, second"]
    assert texts() == []


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("NR-Harvest-Thread", "New Relic's agent"),
        ("ThreadPoolExecutor-0_0", "a thread pool"),
    ],
)
def test_threads_of_known_libraries_are_named_with_what_to_do(name: str, owner: str) -> None:
    with running(name):
        [hazard] = found()
    assert hazard.what == f"thread {name} of {owner}"
    assert "in each worker" in hazard.hint


@pytest.mark.parametrize("name", ["OtelBatchSpanRecordProcessor", "sentry.monitor"])
def test_threads_that_their_library_starts_again_are_no_hazard(name: str) -> None:
    with running(name):
        assert texts() == []


@pytest.mark.parametrize("package", ["ddtrace.internal", "sentry_sdk._batcher"])
def test_so_are_threads_that_such_a_library_gives_no_name(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running("Thread-1 (_flush_loop)") as thread:
        monkeypatch.setattr(thread, "_target", SimpleNamespace(__module__=package))
        assert texts() == []


@pytest.mark.parametrize("renews", [False, True])
def test_a_thread_of_sentrys_whose_lock_no_child_renews_is_a_hazard(
    renews: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2.57; from 2.59 on each child has a new lock."""
    members = {"_flush_loop": lambda self: None, "__module__": "sentry_sdk._batcher"}
    if renews:
        members["_reset_thread_state"] = members["_flush_loop"]
    batcher = type("Batcher", (), members)()
    with running("Thread-1 (_flush_loop)") as thread:
        monkeypatch.setattr(type(batcher)._flush_loop, "__module__", "sentry_sdk._batcher")
        monkeypatch.setattr(thread, "_target", batcher._flush_loop)
        found_now = found()
    assert [hazard.what for hazard in found_now] == (
        [] if renews else ["thread Thread-1 (_flush_loop) of sentry_sdk"]
    )
    assert all("2.59" in hazard.hint for hazard in found_now)


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("6.9.3", False), ("7.12.0", False), ("7.15.0", True), ("7.91.1", True), ("", False)],
)
def test_threads_start_again_in_the_versions_in_which_their_library_does_so(
    version: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "posthog.version", SimpleNamespace(VERSION=version))
    with running("Thread-1") as thread:
        monkeypatch.setattr(thread, "_target", SimpleNamespace(__module__="posthog.consumer"))
        found_now = found()
    assert (found_now == []) is is_known
    assert all("7.15" in hazard.hint for hazard in found_now)


def test_what_rqs_worker_listens_with_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class BaseWorker:
        def __init__(self, connection: socket.socket) -> None:
            self.pubsub = SimpleNamespace(connection=SimpleNamespace(_sock=connection))

        def _pubsub_exception_handler(self) -> None: ...

    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_connection(server.getsockname())) as connection,
        running("Thread-1") as thread,
    ):
        worker = BaseWorker(connection)
        monkeypatch.setattr(thread, "_target", SimpleNamespace(__module__="redis.client"))
        thread.exception_handler = worker._pubsub_exception_handler  # type: ignore[attr-defined]
        assert len(texts()) == 2
        monkeypatch.setitem(sys.modules, "rq", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "rq.worker", SimpleNamespace(BaseWorker=BaseWorker))
        for version, count in (("2.6.0", 0), ("1.16.0", 1)):
            monkeypatch.setitem(sys.modules, "rq.version", SimpleNamespace(VERSION=version))
            assert len(texts()) == count
        thread.exception_handler = print  # type: ignore[attr-defined]
        assert "thread Thread-1 of redis" in texts()


def test_threads_of_ddtraces_c_code_are_known_by_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running("Dummy-1") as thread:
        assert texts() == ["thread Dummy-1"]
        ddtrace = SimpleNamespace(periodic_threads={thread.ident: object()})
        monkeypatch.setitem(sys.modules, "ddtrace.internal._threads", ddtrace)
        assert texts() == []


def test_a_thread_of_an_unknown_library_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running("poller") as thread:
        monkeypatch.setattr(thread, "_target", SimpleNamespace(__module__="flags.client.poll"))
        assert texts() == ["thread poller of flags"]


@pytest.fixture
def native_thread() -> Iterator[None]:
    """A thread that no Python code has started: it runs `sleep` of the C library."""
    libc = ctypes.CDLL(None)
    number = ctypes.c_ulong()
    start = ctypes.cast(libc.sleep, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(number), None, start, ctypes.c_void_p(3600)) == 0
    yield
    libc.pthread_cancel(number)
    libc.pthread_join(number, None)


@pytest.mark.usefixtures("native_thread")
def test_a_thread_of_native_code_is_a_hazard_of_its_own_kind() -> None:
    [hazard] = found()
    assert hazard.kind is Reason.NATIVE_THREAD
    assert "native thread" in hazard.what


SPINS = """
#include <pthread.h>
static volatile int stop;
static pthread_t thread;
static void *spin(void *unused) { while (!stop) { } return unused; }
int start(void) { return pthread_create(&thread, 0, spin, 0); }
int end(void) { stop = 1; return pthread_join(thread, 0); }
"""


@pytest.fixture
def stacks_side_by_side() -> None:
    """Stacks of threads that have ended: kept for later ones, and one mapping with glibc 2.42."""
    threads = [threading.Thread(target=time.sleep, args=(0.1,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.mark.usefixtures("stacks_side_by_side")
def test_a_native_thread_that_never_waits_is_named_by_what_it_began_with(tmp_path: Path) -> None:
    """As those of OpenBLAS between two products: the kernel says nothing of one that runs."""
    path = tmp_path / "libspins.so"
    command = ["cc", "-shared", "-fPIC", "-O0", "-pthread", "-o", str(path), "-x", "c", "-"]
    subprocess.run(command, input=SPINS.encode(), check=True)
    library = ctypes.CDLL(str(path))
    assert library.start() == 0
    try:
        [hazard] = found()
    finally:
        library.end()
    assert hazard.what.endswith(" of libspins.so")


@pytest.mark.usefixtures("stacks_side_by_side")
def test_the_watchdog_of_faulthandler_is_no_librarys_thread() -> None:
    """A child would wait for it for ever at its end, with pasture or without."""
    faulthandler.dump_traceback_later(3600)
    try:
        [hazard] = found()
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert hazard.what == "faulthandler's watchdog"
    assert "cancel_dump_traceback_later" in hazard.hint
    assert found() == []


@pytest.mark.usefixtures("stacks_side_by_side")
def test_a_thread_that_threading_does_not_know_is_named_by_its_code() -> None:
    waits, ended = _thread.allocate_lock(), threading.Event()
    waits.acquire()

    def wait() -> None:
        with waits:
            ended.set()

    _thread.start_new_thread(wait, ())
    try:
        [hazard] = found()
    finally:
        waits.release()
        ended.wait()
    assert hazard.what == f"a thread that {__name__} has started"
    assert hazard.kind is Reason.THREAD


def test_a_thread_of_native_code_that_has_ended_is_none() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("name", "package", "file", "copes"),
    [
        ("python", "numpy 2.5.5", "/site-packages/numpy.libs/libscipy_openblas64_-4b.so", True),
        ("jemalloc_bg_thd", "polars 2.1", "/site-packages/polars/polars.abi3.so", True),
        ("ddtrace", "ddtrace 4.16", "/site-packages/ddtrace/internal/_native.so", True),
        ("tokio-runtime-w", "chromadb 1.5", "/site-packages/chromadb_rust_bindings/x.so", False),
        ("python", "scikit_learn 1.9", "/site-packages/scikit_learn.libs/libgomp-e9.so.1", False),
    ],
)
def test_threads_of_libraries_that_take_notice_of_a_fork_are_known(
    name: str, package: str, file: str, copes: bool
) -> None:
    assert native_threads.copes(name, package, (file,)) is copes


def test_a_running_loop_is_found() -> None:
    async def look() -> list[str]:
        return texts()

    assert "a running asyncio loop" in asyncio.run(look())


def test_a_hub_of_gevents_is_found_where_the_fork_is_not_gevents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hubs: list[object] = []
    local = SimpleNamespace(get_hub_if_exists=lambda: hubs[0] if hubs else None)
    monkeypatch.setitem(sys.modules, "gevent._hub_local", local)
    assert texts() == []
    hubs.append(object())
    assert texts() == ["gevent's hub, which this fork does not renew"]

    def fork() -> int:
        raise AssertionError

    fork.__module__ = "gevent.os"
    monkeypatch.setattr(os, "fork", fork)
    assert texts() == []
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace())
    assert texts() == ["gevent's hub, which this fork does not renew"]


def test_cuda_is_found_once_it_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    for initialized in (False, True):
        module = SimpleNamespace(_initialized=initialized)
        monkeypatch.setitem(sys.modules, "torch.cuda", module)
        assert bool(texts()) is initialized


def test_grpc_counts_only_with_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc._cython.cygrpc", SimpleNamespace())
    monkeypatch.setattr("pasture.fork_safety.libraries.grpc._has_threads_of_c", lambda: False)
    assert texts() == []
    monkeypatch.setattr("pasture.fork_safety.libraries.grpc._has_threads_of_c", lambda: True)
    assert texts() == ["gRPC's core, which runs threads"]


@pytest.mark.parametrize(
    ("version", "switch", "copes"),
    [("1.85.1", "", True), ("1.85.1", "0", False), ("1.62.0", "", False), ("2.0", "", False)],
)
def test_grpcs_threads_start_again_in_the_versions_that_were_tried(
    version: str, switch: str, copes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc._cython.cygrpc", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "grpc", SimpleNamespace(__version__=version))
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", switch)
    monkeypatch.setattr("pasture.fork_safety.libraries.grpc._has_threads_of_c", lambda: True)
    assert (texts() == []) is copes


def test_a_hazard_says_what_and_what_to_do() -> None:
    assert str(Hazard("a lion", "leave it")) == "a lion does not survive a fork: leave it"
