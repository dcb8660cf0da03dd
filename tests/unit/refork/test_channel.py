"""Messages between an arbiter and its molds: values, open files, and an end."""

from __future__ import annotations

import errno
import gc
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pasture.refork.channel import (
    CLOSED,
    FROM_CHILDREN,
    MALFORMED,
    Channel,
    channel_of,
    open_channel,
    wait_for,
)


@pytest.fixture
def arbiters() -> Iterator[tuple[Channel, socket.socket]]:
    """The arbiter's end of a channel, and what lies in the hands of an attacker."""
    here, there = open_channel(FROM_CHILDREN)
    with socket.socket(fileno=os.dup(there.fileno())) as attackers:
        there.close()
        yield here, attackers
    here.close()


def test_a_message_brings_values_and_open_files(tmp_path: Path) -> None:
    here, there = open_channel()
    with (tmp_path / "file").open("w+b", buffering=0) as file:
        file.write(b"inside")
        assert here.send("spawn", [file.fileno()], age=3, why="because")
    message = there.receive()
    assert message is not None and message.values == {"age": 3, "why": "because"}
    assert os.pread(message.files[0], 6, 0) == b"inside"
    assert not os.get_inheritable(message.files[0])
    os.close(message.files[0])


def test_a_channel_without_a_message_answers_none_and_a_closed_one_says_so() -> None:
    here, there = open_channel()
    assert there.receive() is None
    here.close()
    assert there.receive() == CLOSED
    assert not there.send("too late")
    there.close()
    assert there.receive() == CLOSED


def test_what_a_side_sent_arrives_though_it_has_left_a_message_unread() -> None:
    here, there = open_channel()
    assert here.send("fork") and there.send("forked", pid=7)
    there.close()
    message = here.receive()
    assert message is not None and (message.word, message.values) == ("forked", {"pid": 7})
    assert here.receive() == CLOSED
    here.close()


def test_a_channel_can_be_sent_over_a_channel() -> None:
    here, there = open_channel()
    far_here, far_there = open_channel()
    here.send("take", [far_there.fileno()])
    far_there.close()
    message = there.receive()
    assert message is not None
    taken = channel_of(message.files[0])
    taken.send("spawned", pid=7)
    assert wait_for([here, far_here], 1) == [far_here]
    answer = far_here.receive()
    assert answer is not None and answer.values == {"pid": 7}


def test_a_long_text_is_not_cut_in_the_middle_of_a_message() -> None:
    here, there = open_channel()
    assert here.send("refused", why="é" * 30_000)
    message = there.receive()
    assert message is not None and message.word == "refused"


@pytest.mark.parametrize(
    "said",
    [
        ["loaded", {}],
        ["spawned", {}],
        ["not spawned", {"why": "too many open files", "for_now": True}],
        ["sealed", {"report": "sealed"}],
        ["refused", {"why": "a thread runs"}],
    ],
)
def test_what_a_mold_says_reaches_the_arbiter_with_the_pid_that_the_kernel_knows(
    arbiters: tuple[Channel, socket.socket], said: list[object]
) -> None:
    here, attackers = arbiters
    attackers.send(json.dumps(said).encode())
    message = here.receive()
    assert message is not None and [message.word, message.values] == said
    assert message.sender == os.getpid()


@pytest.mark.parametrize(
    "data",
    [
        *(b"[", b"[]", b"5", b'"ab"', b"\xff\xfe", b"[" * 16_000, b"9" * 16_000, b"null"),
        *(b'["closed", {}]', b'["malformed", {}]', b'["no answer", {}]', b'["promote", {}]'),
        *(b'["loaded", []]', b'["loaded", {"pid": 1}]', b'[["loaded"], {}]', b'["loaded", {}, 1]'),
        *(b'["spawned", {"pid": -1}]', b'{"loaded": 1, "x": {}}', b'["sealed", {}]'),
        *(b'["refused", {"why": 5}]', b'["refused", {"why": null}]', b'["refused", {"who": ""}]'),
        b'["refused", {"why": "' + b"x" * 1001 + b'"}]',
        b'["not spawned", {"why": "", "for_now": 1}]',
        b'["sealed", {"report": "", "served": ["GET http://localhost/"]}]',
        b'["refused", {"why": "' + b"x" * 60_000 + b'"}]',
    ],
)
def test_anything_else_is_malformed(arbiters: tuple[Channel, socket.socket], data: bytes) -> None:
    here, attackers = arbiters
    attackers.send(data)
    assert here.receive() == MALFORMED


@pytest.mark.parametrize("number", [1, 4, 200])
def test_files_are_not_taken_from_a_mold(
    arbiters: tuple[Channel, socket.socket], number: int
) -> None:
    here, attackers = arbiters
    gc.collect()  # or what other tests left is closed meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    socket.send_fds(attackers, [b'["loaded", {}]'], [0] * number)
    assert here.receive() == MALFORMED
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_reader_is_never_held_up_by_who_sends_nothing_or_reads_nothing(
    arbiters: tuple[Channel, socket.socket],
) -> None:
    here, _ = arbiters
    assert here.receive() is None
    while here.send("spawn", why="x" * 1000):
        pass
    assert here.receive() is None


@pytest.mark.parametrize(("refusals", "sent"), [(2, True), (3, False)])
def test_a_message_that_the_kernel_has_no_memory_for_is_sent_again(
    refusals: int, sent: bool
) -> None:
    here, there = open_channel()
    real, left = there._socket, [errno.ENOBUFS, errno.ENOMEM, errno.ENOBUFS][:refusals]

    class Short:
        def sendmsg(self, *arguments: Any) -> int:
            if left:
                raise OSError(left.pop(), "none")
            return real.sendmsg(*arguments)

    there._socket = cast(Any, Short())
    assert there.send("loaded") is sent
    assert (here.receive() is not None) is sent
    here.close()
    real.close()
