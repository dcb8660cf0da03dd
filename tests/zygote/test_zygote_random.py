"""A few of the random requests; `random_requests.py` compares as many as one likes."""

from __future__ import annotations

import pytest
from images import Images
from random_requests import compare
from zygotes import Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]

GROUPS = 4
EACH = 25


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_requests_end_as_the_interpreter_ends_them(zygotes: Zygotes, group: int) -> None:
    before = zygotes.served()
    found = [compare(zygotes, 1_000_000 + group * EACH + i) for i in range(EACH)]
    assert [one for one in found if one.differs] == []
    assert zygotes.served() - before > EACH // 3


def test_random_programs_out_of_a_file_end_as_the_interpreter_ends_them(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(images.environ, "PASTURE_IMAGE", str(images.image))
    assert images.why() == ""
    found = [compare(images, 1_100_000 + i) for i in range(EACH)]
    assert [one for one in found if one.differs] == []
