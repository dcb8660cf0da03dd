"""Which inherited streams two processes would mix up: rules over what the kernel says of them."""

import asyncio
import os
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety import open_files, streams
from pasture.fork_safety.open_files import Socket, describe
from pasture.reasons import Reason

CLIENT = Socket(
    5,
    77,
    socket.AF_INET,
    socket.SOCK_STREAM,
    is_listening=False,
    is_connecting=False,
    is_connected=True,
    is_at_end=False,
    acked=20,
    received=9,
    own="10.0.0.1:4000",
    peer="10.0.0.2:5432",
)
LOCAL = CLIENT._replace(
    family=socket.AF_UNIX, acked=-1, received=-1, own="", peer="/run/postgresql/.s.PGSQL.5432"
)


@pytest.mark.parametrize(
    "one",
    [
        CLIENT,
        CLIENT._replace(family=socket.AF_INET6, own="::1:4000", peer="::1:5432"),
        CLIENT._replace(acked=1, received=0),
        CLIENT._replace(acked=-1, received=-1),
        CLIENT._replace(is_connected=False, is_connecting=True, acked=0, received=0, peer=""),
        LOCAL,
        LOCAL._replace(kind=socket.SOCK_SEQPACKET),
        LOCAL._replace(own="/run/own", peer=""),
        LOCAL._replace(peer="\x00001ag"),
    ],
    ids=[
        *("a client", "a client of IPv6", "nothing sent yet", "a kernel that does not count"),
        *(
            "a handshake",
            "a local client",
            "a local one with packets",
            "the accepted end",
            "an abstract name",
        ),
    ],
)
def test_a_stream_that_leads_to_another_process_is_shared(one: Socket) -> None:
    assert streams.shared([one]) == (one,)


@pytest.mark.parametrize(
    "one",
    [
        CLIENT._replace(is_listening=True, is_connected=False, peer=""),
        CLIENT._replace(is_connected=False, peer=""),
        CLIENT._replace(is_at_end=True),
        CLIENT._replace(acked=200, received=0),
        CLIENT._replace(kind=socket.SOCK_DGRAM),
        LOCAL._replace(kind=socket.SOCK_DGRAM, peer="/dev/log"),
        LOCAL._replace(peer=""),
        LOCAL._replace(kind=socket.SOCK_SEQPACKET, own="", peer="\x00001a2"),
        LOCAL._replace(is_connected=False, is_listening=True, own="/run/own", peer=""),
        CLIENT._replace(family=socket.AF_NETLINK),
    ],
    ids=[
        *("a listener", "one without a peer", "the other end has closed", "a log over TCP"),
        *(
            "a datagram",
            "the system's log",
            "a pair",
            "one with credentials",
            "a local listener",
            "the kernel",
        ),
    ],
)
def test_what_no_child_reads_answers_from_is_left_alone(one: Socket) -> None:
    assert streams.shared([one]) == ()


@pytest.mark.parametrize("accepted", ["10.0.0.1:4000", "::ffff:10.0.0.1:4000"])
def test_a_self_pipe_made_of_two_connected_streams_is_left_alone(accepted: str) -> None:
    own = accepted.replace(CLIENT.own, CLIENT.peer)
    other = CLIENT._replace(number=6, inode=78, own=own, peer=accepted)
    assert streams.shared([CLIENT, other]) == ()
    assert streams.shared([CLIENT, other._replace(peer="10.0.0.1:4001")]) != ()


@pytest.mark.parametrize(
    ("listener", "own", "is_shared"),
    [
        (CLIENT._replace(own="0.0.0.0:80", peer=""), "10.0.0.1:80", False),
        (CLIENT._replace(own="10.0.0.1:80", peer=""), "10.0.0.1:80", False),
        (CLIENT._replace(own="10.0.0.1:8080", peer=""), "10.0.0.1:80", True),
        (CLIENT._replace(family=socket.AF_INET6, own="[::]:80", peer=""), "10.0.0.1:80", True),
    ],
)
def test_a_connection_that_was_accepted_here_is_for_the_child_that_answers_it(
    listener: Socket, own: str, *, is_shared: bool
) -> None:
    accepted = CLIENT._replace(number=6, inode=78, own=own)
    listener = listener._replace(is_listening=True, is_connected=False)
    assert (accepted in streams.shared([listener, accepted])) is is_shared


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    for name in ("_before", "_noted"):
        monkeypatch.setattr(streams, name, None)
    monkeypatch.setattr(streams, "_kept", set())
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_connection(server.getsockname())) as client,
    ):
        yield client


def test_a_pair_that_passes_credentials_is_a_pair(connection: socket.socket) -> None:
    before = streams.connected(open_files.open_files())
    one, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with closing(one), closing(other):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        one.send(b"x")
        assert other.getpeername() != b""
        assert streams.connected(open_files.open_files()) == before


def numbers() -> list[int]:
    return [one.number for one in streams.connected(open_files.open_files())]


def test_what_was_open_before_the_application_is_not_its_own(connection: socket.socket) -> None:
    assert connection.fileno() in numbers()
    streams.begin()
    assert connection.fileno() not in numbers()
    with closing(socket.create_connection(connection.getpeername())) as later:
        assert numbers() == [later.fileno()]
        streams.begin()  # as at a HUP: the first call counts
        assert numbers() == [later.fileno()]


@pytest.mark.parametrize("keep", [streams.keep, lambda _: streams.begin(is_loaded=True)])
def test_a_kept_stream_is_reported_and_not_isolated(connection: socket.socket, keep: Any) -> None:
    keep(connection.fileno())
    assert connection.fileno() in numbers()
    streams.note()
    assert streams._noted is not None
    assert connection.fileno() not in [number for number, _ in streams._noted.shared]


def unsupported() -> types.ModuleType:
    raise UnsupportedInterpreter("another layout")


@pytest.mark.parametrize("by", [describe, "python"])
def test_a_look_at_a_socket_changes_no_flag_under_a_default_timeout(
    connection: socket.socket, by: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "python":
        monkeypatch.setattr(open_files, "native", unsupported)
    expected = f"127.0.0.1:{connection.getpeername()[1]}"
    socket.setdefaulttimeout(5)
    try:
        one = describe(connection.fileno())
        assert socket.getdefaulttimeout() == 5
    finally:
        socket.setdefaulttimeout(None)
    assert one is not None
    assert (one.own, one.peer) == (f"127.0.0.1:{connection.getsockname()[1]}", expected)
    assert (one.kind, one.is_connected, one.is_listening) == (socket.SOCK_STREAM, True, False)
    assert os.get_blocking(connection.fileno())
    assert open_files.peer(connection.fileno()) == expected
    assert describe(0) is None
    assert describe(99999) is None
    assert open_files.peer(0) == ""


def test_python_describes_local_names_and_the_lack_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "native", unsupported)
    with (
        closing(socket.socket(socket.AF_UNIX)) as server,
        closing(socket.socket(socket.AF_UNIX)) as client,
    ):
        server.bind(f"\0pasture-test-{os.getpid()}")
        server.listen()
        listening = describe(server.fileno())
        assert listening is not None
        assert (listening.is_listening, listening.is_connected) == (True, False)
        client.connect(server.getsockname())
        assert open_files.peer(client.fileno()) == f"\0pasture-test-{os.getpid()}"


@pytest.fixture
def only_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that another test has left in this process counts for nothing."""
    every = open_files.open_files
    old = {number for number, _ in every()}
    monkeypatch.setattr(open_files, "open_files", lambda: [f for f in every() if f[0] not in old])


def kinds() -> list[Reason]:
    return [hazard.kind for hazard in streams.undividable(open_files.open_files())]


def test_a_dialogue_by_pipes_is_a_hazard_until_it_ends(only_new: None) -> None:
    assert kinds() == []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as writes_only:
        assert kinds() == []
        with subprocess.Popen(["cat"], stdin=-1, stdout=-1) as dialogue:
            [hazard] = streams.undividable(open_files.open_files())
            assert f"process {dialogue.pid}" in hazard.what
        assert kinds() == []
        assert writes_only.stdin is not None


def test_a_loop_of_another_language_is_a_hazard_until_it_is_closed(
    only_new: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    members = {"is_closed": lambda self: bool(ended)}
    with closing(asyncio.new_event_loop()):
        assert kinds() == []
    loop = type("Loop", (asyncio.AbstractEventLoop,), members)()
    assert kinds() == [Reason.EVENT_LOOP]
    ended.append(True)
    assert kinds() == []
    ended.clear()
    assert kinds() == [Reason.EVENT_LOOP], loop
    monkeypatch.delitem(sys.modules, "asyncio.events")
    assert kinds() == []


def test_an_io_uring_is_a_hazard(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = (9, types.SimpleNamespace(st_mode=0o600, st_ino=1))
    monkeypatch.setattr(open_files, "open_files", lambda: [ring])
    monkeypatch.setattr(streams, "name_of", lambda number: "anon_inode:[io_uring]")
    [hazard] = streams.undividable(open_files.open_files())
    assert hazard.what == "the io_uring with the descriptor 9"
    monkeypatch.setattr(streams, "_unnamed_before", frozenset([9]))
    assert kinds() == []
