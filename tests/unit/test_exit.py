"""The exit status that stands for the code of a SystemExit."""

import pytest

from pasture.sealing.exit import status_of

pytestmark = pytest.mark.interpreter


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (None, 0),
        (0, 0),
        (3, 3),
        (True, 1),
        (-1, 255),
        (256, 0),
        (2**40 + 7, 7),
        (2**63, 255),
        (-(2**63) - 1, 255),
        ("a complaint", 1),
        ((1, 2), 1),
        (2.0, 1),
    ],
)
def test_a_code_has_the_status_that_cpython_gives_it(code: object, status: int) -> None:
    assert status_of(code) == status
