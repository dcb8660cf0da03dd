"""What a program has printed, free ports, and the signals that end a command."""

import signal
import socket

import pytest

from pasture_tools.launch import ports, session
from pasture_tools.launch.session import stop_on_signals


def test_an_exception_without_a_message_is_still_named() -> None:
    text = "Traceback (most recent call last):\n  File ...\n    assert x\nAssertionError\n"

    assert session.last_exception(text) == "AssertionError"


def test_a_log_is_shown_by_its_end() -> None:
    text = "".join(f"line {i}\n\n" for i in range(100))

    shown = session.tail(text, lines=2)

    assert shown.split() == ["line", "98", "line", "99"]


def test_an_empty_log_is_called_empty() -> None:
    assert "empty" in session.tail(" \n")


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server((ports.LOOPBACK, ports.free_port())):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_computation_that_does_not_look_is_interrupted(number: signal.Signals) -> None:
    """Without that it went on: a regular expression, figures of a large heap."""
    before = [signal.getsignal(one) for one in (number, signal.SIGALRM)]
    computed = 0
    with pytest.raises(KeyboardInterrupt), session.stop_on_signals():
        signal.raise_signal(number)
        signal.raise_signal(number)
        while True:
            computed += 1
    assert computed
    assert [signal.getsignal(one) for one in (number, signal.SIGALRM)] == before


def test_what_has_looked_ends_its_processes_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LOOK_S", 0.01)
    with session.stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert signal.sigtimedwait((), 0.1) is None
    with session.stop_on_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            session.pausing(stop)(600)
        assert signal.sigtimedwait((), 0.1) is None


# --- Signals to a command that has processes to end ---


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_sets_the_event_and_a_second_one_interrupts_nothing(number: int) -> None:
    with stop_on_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()
        signal.raise_signal(number)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with pytest.raises(ValueError, match="failed"), stop_on_signals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise ValueError("failed")
    assert [signal.getsignal(number) for number in ENDING] == before
