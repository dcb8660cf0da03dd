"""What a snapshot has where, from arrays made by hand."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain.extents import NOTHING, Extents, PageRanks


def test_a_lookup_finds_the_piece_that_holds_an_address_and_no_other() -> None:
    starts = np.array([100, 200, 300], dtype=np.uint64)
    ends = np.array([150, 300, 310], dtype=np.uint64)
    same = starts.copy()
    extents = Extents(starts, ends, same, same, starts.astype(np.uint8), starts.astype(np.int64))
    wanted = np.array([99, 100, 149, 150, 299, 300, 310], dtype=np.uint64)
    assert extents.lookup(wanted).tolist() == [-1, 0, 0, -1, 1, 2, -1]
    assert NOTHING.lookup(wanted).tolist() == [-1] * 7


def test_pages_before_an_address_are_the_same_as_by_searching() -> None:
    rng = np.random.default_rng(1)
    near = np.unique(rng.integers(0, 5000, 900)).astype(np.uint64) * np.uint64(4096)
    pages = np.concatenate((near + np.uint64(1 << 40), near + np.uint64(1 << 45)))
    wanted = np.concatenate(
        [rng.integers(at - 10**6, at + 3 * 10**7, 5000) for at in (1 << 40, 1 << 45)]
    ).astype(np.uint64)
    true = np.searchsorted(pages, wanted // np.uint64(4096) * np.uint64(4096))
    assert (PageRanks(pages).before(wanted) == true).all()
