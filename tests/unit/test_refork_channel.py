"""Messages between an arbiter and its molds: values, open files, and an end."""

from __future__ import annotations

import os
from pathlib import Path

from pasture.servers.refork.channel import CLOSED, channel_of, open_channel, wait_for


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
