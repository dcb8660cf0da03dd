"""How a page is charged to its causes."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.difference import difference
from pasture_tools.explain.fields import Label
from pasture_tools.explain.tally import Tally
from pasture_tools.explain.words import Classified

pytestmark = pytest.mark.interpreter


def test_a_page_is_charged_to_its_causes_by_the_words_of_each() -> None:
    before = np.zeros((3, 512), dtype=np.uint64)
    after = before.copy()
    after[0, :3] = 1
    after[1, 7] = 1
    batch = difference(np.array([0, 4096, 8192], dtype=np.uint64), before, after)
    causes = np.array([Cause.HASH, Cause.HASH, Cause.STACK, Cause.HASH], dtype=np.uint8)
    labels = (Label("a", "x"), Label("b", "y"))
    tally = Tally()
    none = np.full(4, -1, dtype=np.int64)
    tally.add(Classified(batch, causes, np.array([0, 0, 1, 0]), none, labels))
    hash_, stack = tally.causes[Cause.HASH], tally.causes[Cause.STACK]
    assert (hash_.os_pages, hash_.only_os_pages, hash_.words) == (2, 1, 3)
    assert (stack.os_pages, stack.only_os_pages, stack.words) == (1, 0, 1)
    assert hash_.bytes == pytest.approx(4096 * 5 / 3)
    assert tally.causes[Cause.RESTORED].os_pages == 1
    assert sum(share.bytes for share in tally.causes.values()) == pytest.approx(3 * 4096)
