"""Private pages and mappings, from texts and entries as the kernel gives them."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.proc.maps import Mapping, parse_maps
from pasture_tools.explain.regions import Region, Regions
from pasture_tools.proc.address_space import decode, runs

MAPS = """\
00400000-00500000 r-xp 00000000 08:01 1    /usr/bin/python3.14
00500000-00502000 rw-p 00100000 08:01 1    /usr/bin/python3.14
00502000-00600000 rw-p 00000000 00:00 0
01000000-01100000 rw-p 00000000 00:00 0    [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f0000200000-7f0000201000 rw-p 00000000 08:01 2    /usr/lib/lib with space.so (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]
"""


def entry(*bits: int) -> int:
    return sum(1 << bit for bit in bits)


def test_a_page_is_private_if_it_is_present_and_mapped_exclusively() -> None:
    mapping = Mapping(0x1000, 0x6000, "rw-p", "")
    entries = [entry(63, 56), entry(63), entry(56), entry(62), entry(63, 61, 56)]
    pages = decode(mapping, np.array(entries, dtype=np.uint64))
    assert pages.private.tolist() == [True, False, False, False, True]
    assert pages.swapped.tolist() == [False, False, False, True, False]
    assert pages.of_file.tolist() == [False, False, False, False, True]
    assert pages.addresses.tolist() == [0x1000, 0x2000, 0x3000, 0x4000, 0x5000]


def test_mappings_are_read_with_offsets_and_names_that_hold_spaces() -> None:
    mappings = parse_maps(MAPS)
    assert mappings[1] == Mapping(0x500000, 0x502000, "rw-p", "/usr/bin/python3.14", 0x100000, 1)
    assert mappings[2].path == ""
    assert mappings[5].path == "/usr/lib/lib with space.so (deleted)"


def test_neighbouring_pages_are_read_in_one_stretch() -> None:
    addresses = np.array([0x1000, 0x2000, 0x5000, 0x8000, 0x9000, 0xA000], dtype=np.uint64)
    assert list(runs(addresses, 0x1000)) == [(0, 2), (2, 1), (3, 3)]
    assert list(runs(addresses[:0], 0x1000)) == []


def test_bss_belongs_to_its_file_and_what_follows_it_does_not() -> None:
    regions = Regions(parse_maps(MAPS), loaded_bytes=lambda path: 0x104000)
    wanted = np.array([0x500000, 0x503000, 0x504000, 0x1000000], dtype=np.uint64)
    found = [Region(int(kind)) for kind in regions.lookup(wanted)]
    assert found == [Region.INTERPRETER, Region.INTERPRETER, Region.ANONYMOUS, Region.HEAP]


def test_stack_libraries_and_anonymous_memory_are_distinguished() -> None:
    regions = Regions(parse_maps(MAPS), loaded_bytes=lambda path: 0)
    wanted = np.array([0x7FFC00000000, 0x7F0000200000, 0x7F0000000000], dtype=np.uint64)
    found = [Region(int(kind)) for kind in regions.lookup(wanted)]
    assert found == [Region.STACK, Region.LIBRARY, Region.ANONYMOUS]
    assert regions.name(int(regions.index(wanted)[1])) == "lib with space.so (deleted)"
