"""What of a value says which process has made it."""

import dataclasses
import datetime
import functools
import gc
import os
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pasture.own_values.caches import Filled
from pasture.own_values.identity import Identity, digest_of

PID = 12345
HOST = "shop-7f9c"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Identity:
    monkeypatch.setattr(os, "getpid", lambda: PID)
    host = os.uname()
    named = os.uname_result((host.sysname, HOST, host.release, host.version, host.machine))
    monkeypatch.setattr(os, "uname", lambda: named)
    return Identity.now()


@dataclasses.dataclass(slots=True)
class Worker:
    name: str
    inner: Any = None


class Plain:
    def __init__(self, **named: Any) -> None:
        vars(self).update(named)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (PID, "the id of a process"),
        ({"worker": [PID]}, "the id of a process"),
        (f"{PID}@{HOST}", "the id of a process"),
        (Worker(f"worker-{PID}"), "the id of a process"),
        (Plain(pid=PID), "the id of a process"),
        (HOST, "the host's name"),
        (b"redis:" + HOST.encode() + b":lock", "the host's name"),
        (Path(tempfile.mktemp()), "a temporary file"),
        ("unix:/tmp/tmpabc1234_/socket", "a temporary file"),
    ],
)
def test_what_a_process_makes_for_itself_is_found(own: Identity, value: Any, what: str) -> None:
    assert own.found_in(value) == what


@pytest.mark.parametrize(
    "make",
    [
        time.time,
        time.time_ns,
        time.monotonic,
        lambda: int(time.time()),
        lambda: str(time.time()),
        lambda: time.time() * 1000,
        datetime.datetime.now,
        lambda: datetime.datetime.now(datetime.UTC),
        lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
        lambda: datetime.datetime.now().isoformat(),
        lambda: time.strftime("%Y-%m-%d %H:%M:%S"),
    ],
)
def test_a_moment_since_the_process_began_is_found(make: Callable[[], Any]) -> None:
    own = Identity.now()
    assert own.found_in({"started": make()}) == "a time"


def test_a_file_in_the_temporary_folder_is_a_processs_own_if_it_is_newer(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.touch()
    time.sleep(1.1)  # the margin of a look
    own = Identity.now()
    after.touch()
    assert own.found_in(str(after)) == "a temporary file"
    assert own.found_in([str(before), "/tmp/shop.sock"]) is None


def test_the_id_of_a_thread_is_found(own: Identity) -> None:
    assert own.found_in([threading.get_ident()]) == "the id of a thread"


def test_random_bytes_are_found_in_what_was_made_of_them() -> None:
    drawn = [os.urandom(16), os.urandom(8)]
    own = Identity.now(drawn)
    made = uuid.UUID(bytes=drawn[0], version=4)
    for value in (made, str(made), made.hex, drawn[0].hex(), f"key-{drawn[1].hex()}"):
        assert own.found_in(value) == "a random number", value
    assert own.found_in(uuid.uuid4()) is None


@pytest.mark.parametrize(
    "value",
    [
        *(1, 7, 5_000_000, 2**40, True, None, 3.25, "", "table", b"\0", [1, {"of": (7, 8)}]),
        *(f"{PID}0", f"a{HOST}b", str(Path.home()), datetime.date(2020, 1, 1), {1: "one"}),
        *(sys, os.getpid, Plain, Worker, Plain(), Plain(inner=Plain(inner=Plain(pid=PID)))),
        lambda: PID,
    ],
    ids=lambda value: type(value).__name__,  # no address: the same in all processes of a run
)
def test_other_values_are_not(own: Identity, value: Any) -> None:
    assert own.found_in(value) is None


def test_a_small_number_says_nothing_unless_it_is_all_or_stands_beside_the_host(
    own: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 7)  # as in a container
    assert own.found_in({"retries": 7, "name": "7 of 9"}) is None
    assert own.found_in(7) == own.found_in(f"celery@{HOST}-7") == "the id of a process"


def test_no_code_of_the_value_runs(own: Identity) -> None:
    class Trap:
        value = 1

        def refuse(self, *_: Any) -> Any:
            raise AssertionError

        __eq__ = __iter__ = __len__ = __repr__ = __getattr__ = __bool__ = refuse
        __class__ = property(refuse)
        __hash__ = object.__hash__

        @property
        def id(self) -> int:
            raise AssertionError

    trap = Trap()
    object.__setattr__(trap, "pid", PID)
    assert own.found_in([trap]) == "the id of a process"
    assert digest_of([trap]) == digest_of([trap])


def test_a_value_without_an_end_is_looked_at_up_to_a_limit(own: Identity) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert own.found_in(endless) is None
    assert own.found_in([list(range(100_000)), PID]) == "the id of a process"


def test_digests_are_equal_for_equal_parts_alone() -> None:
    def value(name: str, *tags: str) -> Any:
        return {"name": name, "tags": set(tags), "worker": Worker(name), "plain": Plain(of=name)}

    assert digest_of(value("a", "x", "y")) == digest_of(value("a", "y", "x"))
    assert len({digest_of(value(one)) for one in "abc"}) == 3
    assert digest_of(1) != digest_of("1")


@pytest.mark.parametrize("decorate", [functools.cache, functools.lru_cache(maxsize=4)])
def test_of_caches_that_were_filled_those_are_emptied_that_hold_what_is_a_processs_own(
    decorate: Callable[..., Any],
) -> None:
    @decorate
    def name(kind: str = "worker") -> Any:
        return Worker(f"{kind}-{os.getpid()}@{socket.gethostname()}")

    @decorate
    def of_kind(kind: str) -> Any:
        return {"kind": kind, "started": time.time()}

    @decorate
    def table() -> Any:
        return ["built"]

    @decorate
    def before() -> Any:
        return os.getpid()

    before()
    filled = Filled()
    name(), name("other"), of_kind("a"), table(), before()
    said = list(filled.forget_own())
    sizes = [one.cache_info().currsize for one in (name, of_kind, table, before)]
    assert sizes == [0, 0, 1, 1]
    assert len(said) == 2
    assert any("name is emptied: it holds the id of a process" in line for line in said)


def test_a_cache_that_its_connection_refers_to_keeps_neither_of_them_alive() -> None:
    def leaves_no_connection(then: Callable[[], object]) -> bool:
        connection = sqlite3.connect(":memory:", factory=Connection)
        reference = weakref.ref(connection)
        connection.execute("SELECT 1")
        then()
        del connection
        gc.collect()
        return reference() is None

    filled = Filled()
    assert leaves_no_connection(lambda: list(filled.forget_own()))
    later: list[Filled] = []
    assert leaves_no_connection(lambda: later.append(Filled()))
    assert list(later[0].forget_own()) == []


class Connection(sqlite3.Connection):
    """One that can be referred to weakly."""
