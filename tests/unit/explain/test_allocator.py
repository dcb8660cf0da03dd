"""Pools and chunks, from memory made by hand."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain.allocator import HEADER_BYTES, POOL_BYTES, Pools, decode_pools

pytestmark = pytest.mark.interpreter


def pool(block_bytes: int, used: int, free: Sequence[int] = (), carved: int | None = None) -> Pools:
    """The words of a pool with these blocks in its list of free blocks."""
    data = bytearray(POOL_BYTES)
    base = 0x7F0000000000
    places = [base + HEADER_BYTES + number * block_bytes for number in free]
    carved = (POOL_BYTES - HEADER_BYTES) // block_bytes if carved is None else carved
    struct.pack_into("<QQ", data, 0, used, places[0] if places else 0)
    size_class = block_bytes // 16 - 1
    offsets = (HEADER_BYTES + carved * block_bytes, POOL_BYTES - block_bytes)
    struct.pack_into("<IIII", data, 32, 0, size_class, *offsets)
    for place, following in zip(places, [*places[1:], 0], strict=False):
        struct.pack_into("<Q", data, place - base, following)
    bases = np.array([base], dtype=np.uint64)
    return decode_pools(bases, np.frombuffer(bytes(data), dtype=np.uint64).reshape(1, -1))


def test_blocks_of_a_pool_are_free_if_the_list_or_the_unused_end_has_them() -> None:
    found = pool(512, used=27, free=[3, 7], carved=29)
    assert found.valid.tolist() == [True]
    assert np.flatnonzero(found.free[0])[:4].tolist() == [3, 7, 29, 30]


def test_every_block_of_a_pool_without_a_used_one_is_free() -> None:
    assert pool(512, used=0, carved=5).free.all()


def test_a_list_of_free_blocks_that_leads_in_a_circle_ends() -> None:
    assert pool(64, used=3, free=[1, 2, 1, 2]).free[0, 1:3].all()


@pytest.mark.parametrize("spoil", [(4, 77 << 32), (5, 0), (0, 5000)])
def test_memory_whose_header_does_not_agree_with_itself_is_no_pool(spoil: Any) -> None:
    good = pool(512, used=27)
    data = np.zeros((1, POOL_BYTES // 8), dtype=np.uint64)
    data[0, 0], data[0, 4] = 27, 31 << 32
    data[0, 5] = (POOL_BYTES - 512) << 32 | (HEADER_BYTES + 31 * 512)
    assert decode_pools(good.addresses, data).valid.tolist() == [True]
    data[0, spoil[0]] = spoil[1]
    assert decode_pools(good.addresses, data).valid.tolist() == [False]
