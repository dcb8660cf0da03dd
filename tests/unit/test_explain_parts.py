"""The parts of `pasture explain` that need no process."""

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.explain import allocator, bytecode, distinct
from pasture.explain.allocator import HEADER_BYTES, POOL_BYTES, Pools, decode_pools, read_chunks
from pasture.explain.causes import Cause
from pasture.explain.difference import Batch, difference
from pasture.explain.distinct import Numbered
from pasture.explain.fields import Label, object_field, storage_field
from pasture.explain.objects import TypeInfo
from pasture.explain.snapshot import NOTHING, Extents, Kind, PageRanks
from pasture.explain.tally import Tally
from pasture.explain.touched import TouchedObjects, Window
from pasture.explain.words import Classified
from pasture.proc.elf import parse_elf, read_elf
from pasture.proc.maps import Mapping
from pasture.proc.page_faults import parse_sample
from pasture.proc.symbols import read_perf_map

FIELDS = {
    "object": {"ob_refcnt": 0, "ob_type": 8, "ob_size": 16},
    "dict": {"ma_used": 16, "ma_keys": 32},
    "str": {"length": 16, "hash": 24},
    "keys": {
        "dk_refcnt": 0,
        "dk_log2_size": 8,
        "dk_log2_index_bytes": 9,
        "dk_kind": 10,
        "dk_version": 12,
        "dk_usable": 16,
        "dk_nentries": 24,
        "dk_indices": 32,
    },
}
PLAIN = TypeInfo(4096, "Plain", 1 << 14, 40, 0, -32, 0, {24: "slot"})
STR = TypeInfo(8192, "str", 0, 64, 0, 0, 0)


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


def test_chunks_of_a_heap_are_free_as_their_successors_say() -> None:
    heap = bytearray(4096)
    for start, size in ((0, 0x100 | 1), (0x100, 0x200 | 1), (0x300, 0x80), (0x380, 0xC80 | 1)):
        struct.pack_into("<Q", heap, start + 8, size)
    base = 0x1000000
    space: Any = SimpleNamespace(
        mappings=[
            Mapping(base, base + 1024, "rw-p", "[heap]"),
            Mapping(base + 1024, base + 4096, "rw-p", "[heap]"),
        ],
        os_pages_there=lambda pages: np.frombuffer(heap, dtype=np.uint64).reshape(len(pages), -1),
    )
    chunks = read_chunks(space)
    assert (chunks.starts - np.uint64(base)).tolist() == [0, 0x100, 0x300, 0x380]
    assert chunks.in_use.tolist() == [True, False, True, False]
    inside = np.array([base + 0x110, base + 0x37F, base + 0x5000], dtype=np.uint64)
    assert chunks.index(inside).tolist() == [1, 2, -1]


def test_a_heap_without_headers_of_glibc_has_no_chunks() -> None:
    space: Any = SimpleNamespace(
        mappings=[Mapping(4096, 8192, "rw-p", "[heap]")],
        os_pages_there=lambda pages: np.full((len(pages), 512), 2**64 - 1, dtype=np.uint64),
    )
    assert len(allocator.read_chunks(space).starts) == 0


@pytest.mark.parametrize(
    ("info", "offset", "cause", "name"),
    [
        (PLAIN, 0, Cause.REFERENCE_COUNT, "ob_refcnt"),
        (PLAIN, -16, Cause.GC_HEADER, "_gc_next"),
        (PLAIN, -8, Cause.GC_HEADER, "_gc_prev"),
        (PLAIN, -32, Cause.WEAKREF_LIST, "weak references"),
        (PLAIN, -24, Cause.OBJECT_FIELD, "__dict__"),
        (PLAIN, 24, Cause.OBJECT_FIELD, "slot"),
        (PLAIN, 32, Cause.OBJECT_FIELD, "offset 32"),
        (STR, 24, Cause.HASH, "hash"),
        (None, 24, Cause.UNKNOWN, "offset 24"),
    ],
)
def test_an_offset_in_an_object_has_a_cause_and_a_name(
    info: Any, offset: Any, cause: Any, name: Any
) -> None:
    meaning = object_field(info, offset, FIELDS)
    assert (meaning.cause, meaning.label.field) == (cause, name)


@pytest.mark.parametrize(
    ("offset", "cause", "name"),
    [
        (8, Cause.DICT_KEYS, "dk_version"),
        (24, Cause.DICT_KEYS, "dk_nentries"),
        (40, Cause.DICT_KEYS, "dk_indices"),
        (48, Cause.DICT_KEYS, "dk_entries"),
        (56, Cause.DICT_VALUES, "values"),
        (64, Cause.DICT_KEYS, "dk_entries"),
    ],
)
def test_words_of_a_table_with_text_keys_are_told_apart(offset: Any, cause: Any, name: Any) -> None:
    head = bytes(8) + bytes((4, 4, 1)) + bytes(21)  # 16 bytes of indices, keys are texts
    meaning = storage_field(Kind.DICT_KEYS, offset, head, FIELDS)
    assert (meaning.cause, meaning.label.field) == (cause, name)


def test_a_lookup_finds_the_piece_that_holds_an_address_and_no_other() -> None:
    starts = np.array([100, 200, 300], dtype=np.uint64)
    ends = np.array([150, 300, 310], dtype=np.uint64)
    same = starts.copy()
    extents = Extents(starts, ends, same, same, starts.astype(np.uint8), starts.astype(np.int64))
    wanted = np.array([99, 100, 149, 150, 299, 300, 310], dtype=np.uint64)
    assert extents.lookup(wanted).tolist() == [-1, 0, 0, -1, 1, 2, -1]
    assert NOTHING.lookup(wanted).tolist() == [-1] * 7


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


def test_distinct_values_are_the_same_as_by_sorting() -> None:
    codes = np.array([5, 3, 5, 0, 3, 9])
    found, which = distinct.of_codes(codes)
    assert found.tolist() == [0, 3, 5, 9]
    assert found[which].tolist() == codes.tolist()
    assert distinct.of_ascending(np.array([1, 1, 2, 7, 7])).tolist() == [1, 2, 7]


def test_counters_of_running_code_are_told_from_its_opcodes() -> None:
    code = compile("a % b\na % b\na % b\n", "", "exec")
    before = code.co_code
    parts = bytecode.parts(before)
    counters = np.flatnonzero(parts == bytecode.COUNTER)
    assert len(counters) >= 3
    after = bytearray(before)
    after[2 * counters[0]] ^= 0xFF
    assert bytecode.only_counters(before, bytes(after), 0).all()
    after[0] ^= 1  # an opcode
    changed = bytecode.only_counters(before, bytes(after), 0)
    assert not changed[0] and changed[1:].all()


def test_symbols_of_the_interpreter_are_found_in_its_file() -> None:
    import pasture._native

    elf = read_elf(pasture._native.__file__)
    assert elf.end > 0
    named = dict(zip(elf.names, elf.values, strict=True))
    assert elf.symbol(named["PyInit__native"]) == "PyInit__native"
    assert "PyModuleDef_Init" in elf.needs


def test_a_file_that_is_no_elf_file_has_no_symbols(tmp_path: Any) -> None:
    (tmp_path / "text").write_text("nothing")
    assert read_elf(str(tmp_path / "text")).symbol(5) == ""
    assert read_elf(str(tmp_path / "missing")).end == 0
    with pytest.raises((ValueError, struct.error)):
        parse_elf(b"\x7fELF" + bytes(60))


def test_a_sample_of_perf_gives_the_address_and_the_callers() -> None:
    chain = (0xFFFFFFFFFFFFFE00, 0x1000, 0x2000, 0x3000)
    body = struct.pack("<QIIQQQ", 0x1000, 7, 8, 99, 0xABC0, len(chain)) + struct.pack("<4Q", *chain)
    fault = parse_sample(body)
    assert (fault.pid, fault.tid, fault.time_ns, fault.address) == (7, 8, 99, 0xABC0)
    assert fault.stack == (0x2000, 0x3000)


def test_a_perf_map_names_generated_code(tmp_path: Any) -> None:
    path = tmp_path / "perf.map"
    path.write_text("2000 10 py::second:/a b.py\n1000 20 py::first:/a.py\n")
    starts, ends, names = read_perf_map(path)
    assert starts == [0x1000, 0x2000] and ends == [0x1020, 0x2010]
    assert names == ["py::first:/a.py", "py::second:/a b.py"]


def test_every_cause_has_a_name_and_a_meaning_of_its_own() -> None:
    assert len({cause.label for cause in Cause}) == len(Cause)
    assert all(cause.meaning for cause in Cause)


def test_numbers_of_values_stay_when_new_ones_come() -> None:
    numbered = Numbered()
    assert numbered.of(np.array([7, 5, 7], dtype=np.uint64)).tolist() == [1, 0, 1]
    assert numbered.of(np.array([6, 7, 1, 5], dtype=np.uint64)).tolist() == [3, 1, 2, 0]
    assert numbered.values == [5, 7, 1, 6]


def test_pages_before_an_address_are_the_same_as_by_searching() -> None:
    rng = np.random.default_rng(1)
    near = np.unique(rng.integers(0, 5000, 900)).astype(np.uint64) * np.uint64(4096)
    pages = np.concatenate((near + np.uint64(1 << 40), near + np.uint64(1 << 45)))
    wanted = np.concatenate(
        [rng.integers(at - 10**6, at + 3 * 10**7, 5000) for at in (1 << 40, 1 << 45)]
    ).astype(np.uint64)
    true = np.searchsorted(pages, wanted // np.uint64(4096) * np.uint64(4096))
    assert (PageRanks(pages).before(wanted) == true).all()


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
    window.add(Classified(batch, rows, rows, extents.lookup(words), ()))
    touched.add(window)
    found = [[(t.type, t.os_pages, t.words) for t in group] for group in touched.groups()]
    assert found == [[(8000, 1, 1)] * 4, [(7000, 1, 3)], [(0, 1, 1)]]
