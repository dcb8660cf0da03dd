"""The page size is the kernel's: it is written down nowhere, and what reads pools takes any."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

import pasture
from pasture.errors import NoPrivilege
from pasture.proc import os_page
from pasture.proc.maps import Mapping
from pasture_tools.explain import allocator, new_memory, recognition
from pasture_tools.explain.allocator import HEADER_BYTES, POOL_BYTES
from pasture_tools.explain.chunks import NO_CHUNKS
from pasture_tools.explain.regions import Regions
from pasture_tools.proc.page_faults import call_number

pytestmark = pytest.mark.interpreter

PACKAGE = Path(pasture.__file__).parent
NATIVE = PACKAGE.parent / "native"

DEFINITIONS = ("native/process/os_page.h", "pasture/proc/os_page.py")
OTHER_NUMBERS = {
    "native/cpython/readable.h": ("at >=",),
    "native/gc/unreachable.c": ("BATCH_OBJECTS",),
    "native/seal/malloc_jemalloc.c": ("rena",),
    "native/seal/malloc_mimalloc.c": ("give_back",),
    "native/seal/plug_glibc.c": ("FINE_MAX_BYTES", "STRAYS_MAX"),
    "native/seal/plug_malloc.c": ("UNKNOWN_FRESH",),
    "native/seal/plug_resident.c": ("FRESH_MAX",),
    "pasture/own_values/seeding.py": ("_MAX_NOTED",),
    "pasture_tools/proc/elf.py": ("_MAX_NAME_BYTES",),
    "pasture_tools/launch/reaper.py": ("os.read",),
    "pasture_tools/launch/session.py": ("os.read",),
}
"""Where such a number is something else, and words of the lines."""

A_PAGE_SIZE = re.compile(
    r"\b(4096|4_096|4095|0x1000|0xfff)[uUlL]*\b|(<<|>>) *12\b"
    r"|SC_PAGE_?SIZE|getpagesize|\bPAGE(SIZE|_SIZE|_SHIFT)\b"
)
"""4 KiB as it is written, and the questions that give the true size."""


def lines_with_a_page_size() -> list[str]:
    found = []
    for file in [*NATIVE.rglob("*.[ch]"), *PACKAGE.parent.glob("pasture*/**/*.py")]:
        name = file.relative_to(PACKAGE.parent).as_posix()
        if name in DEFINITIONS:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            known = OTHER_NUMBERS.get(name, ())
            if A_PAGE_SIZE.search(line) and not any(word in line for word in known):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


@pytest.mark.skipif(not NATIVE.is_dir(), reason="the package is installed without its sources")
def test_the_page_size_is_written_down_nowhere_but_in_its_two_definitions() -> None:
    assert lines_with_a_page_size() == []


@pytest.mark.parametrize("line", ["x & ~4095", "sysconf(_SC_PAGESIZE)", "a >> 12", "[4096u / 8]"])
def test_a_page_size_is_recognised_as_one(line: str) -> None:
    assert A_PAGE_SIZE.search(line)


@pytest.mark.parametrize("machine, number", [("x86_64", 298), ("aarch64", 241)])
def test_the_call_that_samples_page_faults_has_a_number_on_each_machine(
    machine: str, number: int
) -> None:
    assert call_number(machine) == number


def test_a_machine_whose_call_number_is_unknown_is_named() -> None:
    with pytest.raises(NoPrivilege, match="sparc64") as refused:
        call_number("sparc64")
    assert "x86_64" in refused.value.hint


# --- Kernels with other pages -----------------------------------------------------------

START = 0xFFFF_8000_0000
"""Where aarch64 maps memory: above 2^47."""
POOLS = 8
BLOCK_BYTES = 512


def memory_of_pools() -> np.ndarray[Any, Any]:
    """Pools in a row; the number of blocks that the nth one has handed out is n + 1."""
    words = np.zeros((POOLS, POOL_BYTES // 8), dtype=np.uint64)
    words[:, 0] = np.arange(1, POOLS + 1)
    words[:, 4] = np.uint64((BLOCK_BYTES // 16 - 1) << 32)
    carved = HEADER_BYTES + np.arange(1, POOLS + 1) * BLOCK_BYTES
    words[:, 5] = carved.astype(np.uint64) | np.uint64((POOL_BYTES - BLOCK_BYTES) << 32)
    return words.reshape(-1)


@pytest.fixture(params=[4096, 16384, 65536])
def os_page_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Has the readers of memory take another page size for the kernel's."""
    size: int = request.param
    for module in (allocator, new_memory, recognition):
        monkeypatch.setattr(module, "OS_PAGE_BYTES", size)
    monkeypatch.setattr(allocator, "PIECE_BYTES", min(size, POOL_BYTES))
    monkeypatch.setattr(new_memory, "_PAGE_WORDS", size // 8)
    return size


def space_of(words: np.ndarray[Any, Any], os_page_bytes: int) -> Any:
    pages = words.reshape(-1, os_page_bytes // 8)

    def os_pages(addresses: np.ndarray[Any, Any]) -> Any:
        assert not (addresses % np.uint64(os_page_bytes)).any(), "no page starts there"
        return pages[((addresses - np.uint64(START)) // np.uint64(os_page_bytes)).astype(int)]

    return SimpleNamespace(os_pages=os_pages, os_pages_there=os_pages)


def test_pools_are_read_whether_a_page_is_smaller_or_larger(os_page_bytes: int) -> None:
    space = space_of(memory_of_pools(), os_page_bytes)
    bases = START + np.array([0, 1, 6], dtype=np.uint64) * np.uint64(POOL_BYTES)
    found = allocator.read_pools(space, bases)
    assert found.valid.all()
    assert found.used.tolist() == [1, 2, 7]


def test_pools_come_from_pages_that_were_read_already(os_page_bytes: int) -> None:
    words = memory_of_pools()
    rows = words.reshape(-1, os_page_bytes // 8)
    os_pages = START + np.arange(len(rows), dtype=np.uint64) * np.uint64(os_page_bytes)
    read: list[int] = []

    def os_pages_there(pages: Any) -> Any:
        read.extend(pages.tolist())
        return rows[: len(pages)]

    space: Any = SimpleNamespace(os_pages_there=os_pages_there)
    bases = START + np.arange(POOLS, dtype=np.uint64) * np.uint64(POOL_BYTES)
    found = allocator.read_pools(space, bases, os_pages, rows)
    assert found.used.tolist() == list(range(1, POOLS + 1))
    assert read == []


def test_new_memory_is_reported_pool_by_pool_within_a_page(os_page_bytes: int) -> None:
    words = memory_of_pools()
    mapping = Mapping(START, START + words.nbytes, "rw-p", "")
    regions = Regions([mapping], loaded_bytes=lambda path: 0)
    new = new_memory.NewMemory(space_of(words, os_page_bytes), None, regions, NO_CHUNKS)
    pages = np.arange(START, mapping.end, os_page_bytes, dtype=np.uint64)
    in_use = 0
    for _, labels in new.words(pages):
        number = new.labels().index(new_memory.IN_USE)
        in_use += int((labels == number).sum())
    assert in_use * 8 == sum(range(1, POOLS + 1)) * BLOCK_BYTES


def test_words_are_gathered_from_pages_of_any_size(os_page_bytes: int) -> None:
    words = np.arange(POOLS * POOL_BYTES // 8, dtype=np.uint64)
    starts = np.array([0, 8, 65_528, 70_000, 131_048], dtype=np.uint64) + np.uint64(START)
    found = recognition.gather(space_of(words, os_page_bytes), starts, (0, 16))
    assert found[0].tolist() == [0, 1, 8191, 8750, 16381]
    assert found[1].tolist() == [2, 3, 8193, 8752, 16383]


def test_a_type_above_the_addresses_of_x86_programs_is_recognised() -> None:
    type_at = START + 0x100
    info = SimpleNamespace(flags=frozenset(["HAVE_GC"]))
    words = np.zeros(2 * POOL_BYTES // 8, dtype=np.uint64)
    words[64 // 8 + 3] = type_at  # behind 16 bytes of header and the reference count
    objects: Any = SimpleNamespace(
        space=space_of(words, os_page.OS_PAGE_BYTES),
        type_at=lambda address: info if address == type_at else None,
        met={},
        fields={"object": {"ob_type": 8}, "(before)": {"gc": 16, "weakrefs": 32}},
        pools=np.zeros(0, np.uint64),
    )
    found = recognition.recognise(objects, np.array([START + 64], dtype=np.uint64))
    assert found.types.tolist() == [type_at]
    assert found.prefixes.tolist() == [16]
