"""What a signal does to a command that has processes to end first."""

import signal

import pytest

from pasture.launch.session import stop_on_signals

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
