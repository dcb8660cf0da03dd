"""What a test's own process sends: whole messages alone are passed on."""

import pytest

from pytest_pasture.each import _HEADER, _whole

pytestmark = pytest.mark.once

MESSAGES = b"".join(_HEADER.pack(3, 1, len(text)) + text for text in (b"one", b"", b"three"))


@pytest.mark.parametrize(
    ("sent", "passed_on"),
    [
        (len(MESSAGES), len(MESSAGES)),
        (len(MESSAGES) - 1, 2 * _HEADER.size + 3),
        (2 * _HEADER.size + 3 + 4, 2 * _HEADER.size + 3),
        (_HEADER.size + 2, 0),
        (0, 0),
    ],
)
def test_a_message_that_a_process_did_not_finish_is_left_out(sent: int, passed_on: int) -> None:
    assert _whole(bytearray(MESSAGES[:sent])) == MESSAGES[:passed_on]
