"""Code objects outside of blocks, found in memory made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.proc.maps import Mapping
from pasture_tools.explain import code_objects
from pasture_tools.explain.code_objects import find_codes
from pasture_tools.explain.objects import TypeInfo

pytestmark = pytest.mark.interpreter

START = 0x7F00_0000_0000
CODE_TYPE = 0x5500_0000_0040
OTHER_TYPE = 0x5500_0000_0100
HEAD = 200
PAGES = 40


class Space:
    """Pages with code objects; the interpreter lies elsewhere."""

    def __init__(self) -> None:
        self.words = np.zeros((PAGES, 512), dtype=np.uint64)
        interpreter = Mapping(0x5500_0000_0000, 0x5500_0010_0000, "rw-p", "/bin/python3.14")
        self.mappings = (interpreter,)

    def put(self, offset: int, type_: int, units: int) -> None:
        flat = self.words.reshape(-1)
        flat[offset // 8 + 1], flat[offset // 8 + 2] = type_, units

    def os_pages(self, addresses: Any) -> Any:
        found = np.zeros((len(addresses), 512), dtype=np.uint64)
        at = (addresses.astype(np.int64) - START) // 4096
        there = (at >= 0) & (at < PAGES)
        found[there] = self.words[at[there]]
        return found

    os_pages_there = os_pages


def found(space: Space, *pages: int) -> list[tuple[int, int]]:
    types = {
        CODE_TYPE: TypeInfo(CODE_TYPE, "code", frozenset(), HEAD, 0, 0),
        OTHER_TYPE: TypeInfo(OTHER_TYPE, "other", frozenset(), 16, 0, 0),
    }
    fields = {
        "object": {"ob_type": 8, "ob_size": 16},
        "code": {"co_code_adaptive": HEAD},
        "(code)": {"unit_bytes": 2},
    }
    objects: Any = SimpleNamespace(space=space, fields=fields, type_at=types.get)
    addresses = np.array([START + 4096 * page for page in pages], dtype=np.uint64)
    starts, ends, _ = find_codes(objects, addresses)
    return [(s - START, e - START) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]


def test_code_is_found_by_the_pointer_to_its_type_and_ends_with_its_instructions() -> None:
    space = Space()
    space.put(16, CODE_TYPE, 50)
    space.put(320, CODE_TYPE, 8)
    space.put(640, OTHER_TYPE, 8)
    assert found(space, 0) == [(16, 316), (320, 536)]


def test_code_that_began_pages_before_is_found() -> None:
    space = Space()
    space.put(4096 * 3 + 4080, CODE_TYPE, 6000)  # its size is in the next page
    assert found(space, 5) == [(4096 * 3 + 4080, 4096 * 3 + 4080 + HEAD + 12000)]


def test_what_has_no_possible_size_is_no_code() -> None:
    space = Space()
    space.put(16, CODE_TYPE, 0)
    space.put(64, CODE_TYPE, 1 << 30)
    assert found(space, 0) == []


def test_memory_without_code_has_none() -> None:
    assert found(Space(), 0, 7) == []


# --- Counters of running code ---


def test_counters_of_running_code_are_found_by_its_opcodes() -> None:
    code = compile("a % b\na % b\na % b\n", "", "exec")
    before = code.co_code
    parts = code_objects.parts(before)
    counters = np.flatnonzero(parts == code_objects.COUNTER)
    assert len(counters) >= 3
    after = bytearray(before)
    after[2 * counters[0]] ^= 0xFF
    assert code_objects.only_counters(before, bytes(after), 0).all()
    after[0] ^= 1  # an opcode
    changed = code_objects.only_counters(before, bytes(after), 0)
    assert not changed[0] and changed[1:].all()
