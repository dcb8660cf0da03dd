"""Which objects are ranked first."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.difference import Batch
from pasture_tools.explain.extents import Extents
from pasture_tools.explain.touched import TouchedObjects, Window
from pasture_tools.explain.words import Classified


def test_a_kind_of_which_many_objects_were_written_once_is_ranked_first() -> None:
    starts = np.arange(8, dtype=np.uint64) * np.uint64(4096)
    types = np.array([7000, 8000, 8000, 8000, 8000, 0, 0, 7000], dtype=np.uint64)
    kinds = np.array([0, 0, 0, 0, 0, 3, 3, 0], dtype=np.uint8)
    extents = Extents(starts, starts + np.uint64(64), starts, types, kinds, np.arange(8))
    rows = np.array([0, 0, 0, 1, 2, 3, 4, 5])
    words = starts[rows] + np.arange(8, dtype=np.uint64) * np.uint64(8)
    batch = Batch(starts, words, rows)
    touched = TouchedObjects()
    window = Window(extents)
    window.add(Classified(batch, np.zeros(8, np.uint8), rows, extents.lookup(words), ()))
    touched.add(window)
    found = [[(t.type, t.os_pages, t.words) for t in group] for group in touched.groups()]
    assert found == [[(8000, 1, 1)] * 4, [(7000, 1, 3)], [(0, 1, 1)]]


def test_what_lies_in_pages_that_are_equal_again_is_sampled_for_all_of_them() -> None:
    pages = np.arange(300, dtype=np.uint64) * np.uint64(4096)
    types = np.full(300, 8000, dtype=np.uint64)
    kinds = np.zeros(300, dtype=np.uint8)
    extents = Extents(pages, pages + np.uint64(4096), pages, types, kinds, np.arange(300))
    rows = np.array([0])
    batch = Batch(pages, pages[:1], rows)
    touched = TouchedObjects()
    window = Window(extents)
    window.add(Classified(batch, rows, rows, extents.lookup(pages[:1]), ()))
    touched.add(window)
    [restored] = touched.restored.values()
    assert sum(one.os_pages for one in restored) == pytest.approx(299)
    assert 0 not in {one.number for one in restored}
    [differing] = touched.samples.values()
    assert [(one.number, one.os_pages) for one in differing] == [(0, 1.0)]


def test_a_page_with_many_objects_counts_once_in_all() -> None:
    starts = np.arange(0, 4096, 64, dtype=np.uint64)
    types, kinds = np.full(64, 8000, dtype=np.uint64), np.zeros(64, dtype=np.uint8)
    extents = Extents(starts, starts + np.uint64(64), starts, types, kinds, np.arange(64))
    rows = np.zeros(64, dtype=np.int64)
    batch = Batch(starts[:1], starts, rows)
    touched = TouchedObjects()
    window = Window(extents)
    window.add(Classified(batch, rows, rows, extents.lookup(starts), ()))
    touched.add(window)
    [sample] = touched.samples.values()
    assert sum(one.os_pages for one in sample) == pytest.approx(1)


@pytest.mark.parametrize("cause", [Cause.FREE_MEMORY, Cause.HOLE, Cause.FREE_LIST])
def test_what_the_parent_had_freed_by_the_fork_is_no_object_that_was_written(cause: Cause) -> None:
    starts = np.arange(2, dtype=np.uint64) * np.uint64(4096)
    types, kinds = np.full(2, 8000, dtype=np.uint64), np.zeros(2, dtype=np.uint8)
    extents = Extents(starts, starts + np.uint64(64), starts, types, kinds, np.arange(2))
    rows = np.arange(2)
    batch = Batch(starts, starts, rows)
    touched = TouchedObjects()
    window = Window(extents)
    causes = np.array([cause, Cause.OBJECT_FIELD])
    window.add(Classified(batch, causes, rows, extents.lookup(starts), ()))
    touched.add(window)
    assert list(touched.kept) == [1]
