"""Memory of another process may hold anything; reading it ends, in bounded time."""

import mmap
import os
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("numpy")

from pasture.interpreter import fields
from pasture.proc.maps import parse_maps, parse_smaps, read_maps, read_smaps
from pasture.proc.smaps import InMemory, parse_mapped_files
from pasture_tools.explain.objects import Objects
from pasture_tools.proc.address_space import AddressSpace

FIELDS = fields()
AT = FIELDS["type"]
START, SIZE = 0x10000, 4096
SUBCLASS = 1 << 31


class Memory:
    """An address space made by hand: types at multiples of 4096 from START on."""

    def __init__(self, types: int) -> None:
        self.data = bytearray(SIZE * (types + 1))
        self.reads = 0
        self.put(0, FIELDS["object"]["ob_type"], START)  # the type that is its own type
        self.put(0, AT["tp_flags"], SUBCLASS)

    def put(self, number: int, offset: int, value: int) -> None:
        at = number * SIZE + offset
        self.data[at : at + 8] = value.to_bytes(8, "little")

    def add_type(self, number: int, base: int) -> int:
        self.put(number, FIELDS["object"]["ob_type"], START)
        self.put(number, AT["tp_base"], START + base * SIZE)
        return START + number * SIZE

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        at = address - START
        return bytes(self.data[at : at + size]) if 0 <= at < len(self.data) else b""

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8).ljust(8, b"\0"), "little")


def objects_in(memory: Memory) -> Objects:
    return Objects(cast(AddressSpace, memory), FIELDS)


def test_types_that_are_each_others_bases_are_read_once() -> None:
    memory = Memory(2)
    first = memory.add_type(1, base=2)
    memory.add_type(2, base=1)

    assert objects_in(memory).type_at(first) is not None
    assert memory.reads < 100


def test_a_chain_of_bases_without_end_is_cut() -> None:
    memory = Memory(5000)
    for number in range(1, 5000):
        memory.add_type(number, base=number + 1)

    assert objects_in(memory).type_at(START + SIZE) is not None


def test_members_without_end_are_cut_over_all_types() -> None:
    memory = Memory(400)
    name = START + 400 * SIZE
    rows = name + 8
    memory.data[400 * SIZE :] = b"member\0\0" + (name.to_bytes(8, "little") + bytes(32)) * 3000
    for number in range(1, 400):
        memory.add_type(number, base=0)
        memory.put(number, AT["tp_members"], rows)
    objects = objects_in(memory)

    for number in range(1, 400):
        objects.type_at(START + number * SIZE)

    assert memory.reads < 500_000


def test_a_type_of_absurd_size_is_taken_for_a_small_one() -> None:
    memory = Memory(1)
    address = memory.add_type(1, base=0)
    memory.put(1, AT["tp_basicsize"], 1 << 62)

    info = objects_in(memory).type_at(address)

    assert info is not None and info.basic_bytes <= 1 << 16


def test_a_read_of_any_claimed_size_is_bounded() -> None:
    with AddressSpace(os.getpid()) as space:
        start = space.mappings[0].start
        assert 0 < len(space.read(start, 1 << 62)) <= 64 << 20
        assert space.read(1 << 63, 8) == space.read(-8, 8) == b""


ODD_NAME = "a\x0bb\x0c\x1cb\x85c\u2028 d\re \udcff.so "


@pytest.mark.parametrize("smaps", ["", "Rss:    8 kB\nVmFlags: rd mr\n"])
def test_names_of_mapped_files_may_hold_any_character(smaps: str) -> None:
    head = f"1000-2000 r--p 00000000 08:01 5    /{ODD_NAME}\n{smaps}"
    text = f"{head}2000-3000 rw-p 00000000 00:00 0\n{smaps}"

    first, second = [one for one, _ in parse_smaps(text)] if smaps else parse_maps(text)

    assert (first.path, second.path) == (f"/{ODD_NAME}", "")
    if smaps:
        assert parse_mapped_files(text) == {f"/{ODD_NAME}": InMemory(8192)}


def test_a_mapped_file_is_found_by_a_name_that_has_ends_of_lines_in_it(tmp_path: Path) -> None:
    path = tmp_path / ODD_NAME
    path.write_bytes(b"x" * 4096)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert str(path) in [mapping.path for mapping in read_maps(os.getpid())]
        assert str(path) in [mapping.path for mapping, _ in read_smaps(os.getpid())]
