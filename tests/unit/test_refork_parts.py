"""The parts of a refork that need no server: schedule, payoff, board, channel, memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pasture.cli.run import command
from pasture.errors import UsageError
from pasture.fork_safety import close
from pasture.scoreboard import layout
from pasture.scoreboard.board import Row, Scoreboard
from pasture.scoreboard.reader import forked_by, read_scoreboard
from pasture.sealing.policy import POLICIES
from pasture.servers.refork.channel import CLOSED, channel_of, open_channel, wait_for
from pasture.servers.refork.mold import policy_of_molds
from pasture.servers.refork.schedule import Payoff, Schedule, parse_schedule
from pasture.servers.settings import read_environment


def test_the_last_limit_of_a_schedule_holds_for_all_later_generations() -> None:
    schedule = parse_schedule(" 50, 500,2000 ")
    assert [schedule.limit(level) for level in range(5)] == [50, 500, 2000, 2000, 2000]
    assert str(schedule) == "50,500,2000"


@pytest.mark.parametrize("text", ["", "50,", "0", "-5", "fifty", "5.5"])
def test_a_schedule_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no schedule of reforks"):
        parse_schedule(text)


def test_a_schedule_without_a_policy_means_the_policy_refork() -> None:
    settings = read_environment({"PASTURE_REFORK": "7"})
    assert settings.policy.name == "refork" and settings.refork == Schedule((7,))


def test_the_policy_refork_brings_a_schedule() -> None:
    settings = read_environment({"PASTURE_POLICY": "refork"})
    assert settings.refork == Schedule((50, 500, 2000))
    assert read_environment({}).refork is None


def test_another_policy_can_be_given_a_schedule() -> None:
    settings = read_environment({"PASTURE_REFORK": "7", "PASTURE_POLICY": "freeze"})
    assert settings.policy.name == "freeze" and settings.refork == Schedule((7,))


def test_a_least_saving_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="is no fraction"):
        read_environment({"PASTURE_REFORK": "7", "PASTURE_REFORK_LEAST_SAVING": "some"})


@pytest.mark.parametrize(("after", "pays"), [(50_000_000, True), (99_500_000, False)])
def test_a_round_pays_if_it_saves_the_fraction_that_was_asked_for(after: int, pays: bool) -> None:
    verdict = Payoff(3, 100_000_000, 500.4, 0.01).verdict(after)
    assert verdict is not None and verdict.pays is pays
    assert f"100.0 MB before, {after / 1e6:.1f} MB after, at 500 requests" in str(verdict)


def test_a_round_that_was_not_measured_has_no_verdict() -> None:
    assert Payoff(1, None, 10, 0.01).verdict(5) is None


def test_what_a_worker_shows_is_seen_by_the_server_and_from_outside() -> None:
    board = Scoreboard()
    first, second = board.reserve(), board.reserve()
    assert first is not None and second is not None
    board.register(first, 4711, 0)
    board.register(second, 4712, 3)
    row = Row(board.words, first)
    row.words[layout.REQUESTS] = 12
    row.show_serving(True)
    assert board.status(first).requests == 12 and board.status(first).ready
    assert not board.status(second).ready
    board.promote(second, 4)
    shown = entries()
    assert (shown[4711].role, shown[4711].generation) == ("worker", 0)
    assert shown[4711].counts.requests == 12
    assert (shown[4712].role, shown[4712].generation) == ("mold", 4)
    assert forked_by(4711, os.getpid()) == os.getpid()
    board.promote(second, 0)
    assert forked_by(4711, os.getpid()) == 4712
    board.release(first.number)
    assert set(entries()) == {4712}


def entries() -> dict[int, layout.Entry]:
    shown = read_scoreboard(os.getpid())
    assert shown is not None
    return shown.entries


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


def test_a_mold_gathers_code_only_where_it_was_traced() -> None:
    assert "gather-code" in policy_of_molds(POLICIES["refork"]).heap
    assert "trace-code" not in policy_of_molds(POLICIES["refork"]).heap
    assert "gather-code" not in policy_of_molds(POLICIES["seal"]).heap
    assert policy_of_molds(POLICIES["refork"]).prepare == ()


def test_an_application_can_say_that_it_must_not_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close, "_unsafe", None)
    assert close.unsafe_reason() is None
    close.fork_unsafe("CUDA is initialized")
    assert close.unsafe_reason() == "CUDA is initialized"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--refork", "soon", "gunicorn", "a:b"], "is no schedule of reforks"),
        (["--refork", "50", "python", "a.py"], "python cannot refork"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(words: list[str], told: str) -> None:
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, UsageError) and told in str(result.exception)
