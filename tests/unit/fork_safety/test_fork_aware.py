"""Connections that their library opens again in each child are distinguished from others."""

import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.fork_safety import fork_aware
from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.survey import survey


class Pool:
    """A pool of redis-py: what it knows of its connections."""

    def __init__(self) -> None:
        self._available_connections: list[Any] = []
        self._in_use_connections: set[Any] = set()


@pytest.fixture(autouse=True)
def with_nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_aware, "_noted_by", 0)
    monkeypatch.setattr(fork_aware, "_noted", frozenset())
    monkeypatch.setattr(fork_aware, "_inherited", frozenset())
    for library in LIBRARIES:
        if library.fork_aware is not None:
            monkeypatch.delitem(sys.modules, library.fork_aware.module, raising=False)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, str]]:
    """One end of a connection, and what a hazard calls it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
        with closing(socket.create_connection(address)) as client:
            yield client, f"the connection to 127.0.0.1:{address[1]}"


def named(what: str) -> bool:
    return what in [hazard.what for hazard in survey()]


def imported(monkeypatch: pytest.MonkeyPatch, version: str = "8.1.0") -> None:
    module = SimpleNamespace(__version__=version, ConnectionPool=Pool)
    monkeypatch.setitem(sys.modules, "redis", module)


def test_an_idle_connection_of_a_pool_is_no_hazard_and_one_in_use_is(
    ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    imported(monkeypatch)
    connection, pool = SimpleNamespace(_sock=client), Pool()
    pool._in_use_connections.add(client)
    assert named(name)
    pool._available_connections.append(connection)
    assert not named(name)
    pool._available_connections.clear()
    assert named(name), "a thread holds it now"


def test_a_queue_of_connections_and_of_free_places_is_looked_into(
    ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    imported(monkeypatch)
    wrapped = SimpleNamespace(_conn=SimpleNamespace(_sock=client))
    pool = Pool()
    pool.pool = SimpleNamespace(queue=[None, wrapped])  # type: ignore[attr-defined]
    assert not named(name)


@pytest.mark.parametrize("version", ["4.6.0", "8.2.0", "9.0.0", "", "unknown"])
def test_a_version_that_was_not_tried_is_not_trusted(
    version: str, ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    imported(monkeypatch, version)
    pool = Pool()
    pool._available_connections.append(SimpleNamespace(_sock=client))
    assert named(name)


def test_a_child_does_not_use_what_its_parent_left_idle(
    ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    imported(monkeypatch)
    pool = Pool()
    pool._available_connections.append(SimpleNamespace(_sock=client))
    assert not named(name)
    pool._available_connections.clear()  # as a pool does that sees the new process
    assert named(name), "in the process itself a thread has taken it"
    pool._available_connections.append(SimpleNamespace(_sock=client))
    assert not named(name)
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    pool._available_connections.clear()
    assert not named(name)


class UnaryMultiCallable:
    """A method of a stub of grpcio: it keeps what its channel keeps."""

    def __init__(self, target: str) -> None:
        self._channel = SimpleNamespace(target=lambda: target.encode())


def grpc_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = SimpleNamespace(_UnaryMultiCallable=UnaryMultiCallable, Other=Pool)
    monkeypatch.setitem(sys.modules, "grpc", SimpleNamespace(__version__="1.85.1"))
    monkeypatch.setitem(sys.modules, "grpc._channel", channels)


@pytest.mark.parametrize(
    ("target", "leads_there"),
    [
        ("dns:///127.0.0.1:{port}", True),
        ("ipv4:127.0.0.1:{port}", True),
        ("dns:///collector.example:{port}", True),
        ("collector.example:{port}", True),
        ("dns:///127.0.0.2:{port}", False),
        ("ipv6:[::1]:{port}", False),
        ("dns:///collector.example:1", False),
        ("unix:///tmp/{port}", False),
    ],
)
def test_a_socket_of_c_code_that_leads_where_a_channel_leads_is_the_channels(
    target: str, leads_there: bool, ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    kept = UnaryMultiCallable(target.format(port=client.getpeername()[1]))
    grpc_is_imported(monkeypatch)
    with closing(select.epoll()) as poller:
        number = os.dup(client.fileno())  # no object of Python's has this one
        try:
            client.close()
            assert named(name), "nothing waits for it, as the core would"
            poller.register(number)
            assert named(name) is not leads_there
        finally:
            os.close(number)
    assert kept is not None


def test_a_socket_of_pythons_is_no_channels(
    ends: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, name = ends
    kept = UnaryMultiCallable(f"collector.example:{client.getpeername()[1]}")
    grpc_is_imported(monkeypatch)
    with closing(select.epoll()) as poller:
        poller.register(client)
        assert named(name)
    assert kept is not None
