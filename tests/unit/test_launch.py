"""What a program has printed, and free ports."""

import pytest

from pasture.launch import ports, session

pytestmark = pytest.mark.once


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
    assert ports.port_is_free(ports.free_port())
