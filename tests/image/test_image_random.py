"""A few of the random requests; `random_requests.py` compares as many as one likes."""

from __future__ import annotations

import pytest
from images import Images
from random_requests import compare

pytestmark = [pytest.mark.once, pytest.mark.integration]

GROUPS = 4
EACH = 25


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_end_as_the_interpreter_ends_them(
    images: Images, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setitem(images.environ, "PASTURE_IMAGE", str(images.image))
    assert images.why() == ""
    found = [compare(images, 1_000_000 + group * EACH + i) for i in range(EACH)]
    assert [one for one in found if one.differs] == []
