"""What a test's own process sends: whole messages alone are passed on."""

import pytest

from pytest_pasture.events import HEADER
from pytest_pasture.isolation import _STOPPED, whole

pytestmark = pytest.mark.once

MESSAGES = b"".join(HEADER.pack(3, len(text)) + text for text in (b"one", b"", b"three"))


@pytest.mark.parametrize(
    ("sent", "passed_on"),
    [
        (len(MESSAGES), len(MESSAGES)),
        (len(MESSAGES) - 1, 2 * HEADER.size + 3),
        (2 * HEADER.size + 3 + 4, 2 * HEADER.size + 3),
        (HEADER.size + 2, 0),
        (0, 0),
    ],
)
def test_a_message_that_a_process_did_not_finish_is_left_out(sent: int, passed_on: int) -> None:
    assert whole(bytearray(MESSAGES[:sent])) == (MESSAGES[:passed_on], False)


def test_the_mark_of_an_end_is_no_message_and_no_part_of_one() -> None:
    assert whole(bytearray(MESSAGES + _STOPPED)) == (MESSAGES, True)
    within = HEADER.pack(3, len(_STOPPED)) + _STOPPED
    assert whole(bytearray(within)) == (within, False)
