"""Ways to objects and objects recognised from memory, in memory made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain.explanation import Grown, Holder
from pasture_tools.explain.objects import TypeInfo
from pasture_tools.explain.owners import Owners, most_grown, most_holding, most_touched
from pasture_tools.explain.recognition import gather, recognise
from pasture_tools.explain.snapshot import NO_OWNER, RECORD, Kind
from pasture_tools.explain.touched import Example, Touched, TouchedObjects

pytestmark = pytest.mark.interpreter

GC = frozenset(["HAVE_GC"])
MODULES, MODULE, NAMESPACE, LIST, ITEMS, CODE, LOST, KEY_TABLE = range(0x1000, 0x9000, 0x1000)
DICT_TYPE, LIST_TYPE, CODE_TYPE, MODULE_TYPE = range(0x10000, 0x50000, 0x10000)
TYPES = {
    address: TypeInfo(address, name, GC, 32, 0, 0, {16: "md_dict"} if name == "module" else {})
    for address, name in (
        (DICT_TYPE, "dict"),
        (LIST_TYPE, "list"),
        (CODE_TYPE, "code"),
        (MODULE_TYPE, "module"),
    )
}
TYPE_OF = {
    MODULES: DICT_TYPE,
    MODULE: MODULE_TYPE,
    NAMESPACE: DICT_TYPE,
    LIST: LIST_TYPE,
    CODE: CODE_TYPE,
    LOST: LIST_TYPE,
}
KEYS = {0x901: "app", 0x902: "routes", 0x903: "x" * 60}
BEFORE = {"gc": 16, "dict": 24, "weakrefs": 32}
FIELDS = {
    "object": {"ob_type": 8, "ob_size": 16},
    "(before)": BEFORE,
    "list": {"ob_item": 24},
    "code": {"co_qualname": 8, "co_filename": 16, "co_firstlineno": 24},
}
WORDS = {
    MODULE + 16: NAMESPACE,
    LIST + 16: 2,
    LIST + 24: ITEMS,
    ITEMS: 0x77,
    ITEMS + 8: CODE,
    CODE + 8: 0x901,
    CODE + 16: 0x902,
    CODE + 24: (5 << 32) | 12,
}
DICTS = {MODULES: [(0x901, MODULE, 0)], NAMESPACE: [(0x902, LIST, 0), (0x903, CODE, 0)]}


def read(address: int, size: int) -> bytes:
    return b"".join(
        WORDS.get(at, 0).to_bytes(8, "little") for at in range(address, address + size, 8)
    )


OBJECTS: Any = SimpleNamespace(
    fields=FIELDS,
    space=SimpleNamespace(word=lambda address: WORDS.get(address, 0), read=read),
    type_of=lambda address: TYPES.get(TYPE_OF.get(address, 0)),
    text=KEYS.get,
    dict_items=lambda address, most: DICTS.get(address, []),
    keys_items=lambda keys, cells, most: [],
    qualified_type_name=lambda address: TYPES[address].name,
)


def snapshot(*rows: tuple[int, int, Kind]) -> Any:
    """A snapshot of (address, number of the owner, kind)."""
    records = np.array(
        [(address, 0, 64, owner, kind, 0) for address, owner, kind in rows], dtype=RECORD
    )
    return SimpleNamespace(
        records=SimpleNamespace(read=lambda first, count: records[first : first + count])
    )


SNAPSHOT = snapshot(
    (MODULES, NO_OWNER, Kind.OBJECT),
    (MODULE, 0, Kind.OBJECT),
    (NAMESPACE, 1, Kind.OBJECT),
    (LIST, 2, Kind.OBJECT),
    (CODE, 3, Kind.OBJECT),
    (ITEMS, 3, Kind.LIST_ITEMS),
    (LOST, NO_OWNER, Kind.OBJECT),
    (CODE, 2, Kind.OBJECT),
    (KEY_TABLE, 0, Kind.DICT_KEYS),
)


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (1, "app"),
        (3, "app.routes"),
        (4, "app.routes[1]"),
        (5, "app.routes"),  # storage is named by the object that holds it
        (6, "(no module) list"),
        (7, "app." + "x" * 60),
        (8, "sys.modules"),
    ],
)
def test_the_way_from_a_module_is_written_as_python_would_write_it(number: int, path: str) -> None:
    assert Owners(SNAPSHOT, OBJECTS).path(number) == path


def test_containers_with_more_items_than_in_the_parent_are_named() -> None:
    objects: Any = SimpleNamespace(**vars(OBJECTS), type_at=TYPES.get)
    now = {LIST + 8: LIST_TYPE, LIST + 16: 902, LOST + 8: LIST_TYPE, LOST + 16: 9_000}
    worker: Any = SimpleNamespace(word=lambda address: now.get(address, 0))
    lists = [Touched(n, at, LIST_TYPE, Kind.OBJECT, 1, 3) for n, at in ((3, LIST), (6, LOST))]
    touched = TouchedObjects(kept={one.number: one for one in lists})
    found = most_grown(SNAPSHOT, objects, worker, touched)
    assert found == (Grown("list", "app.routes", 900),)


def test_attributes_that_lie_apart_from_their_instance_are_named() -> None:
    flock, table, values, instance_type = 0xA000, 0xB000, 0xC000, 0x50000
    info = TypeInfo(instance_type, "Flock", GC | {"MANAGED_DICT"}, 16, 0, -1)
    words = {flock - 24: values | 1, instance_type + 8: table}
    objects: Any = SimpleNamespace(
        fields={"type": {"ht_cached_keys": 8}, "values": {"values": 0}, "(before)": BEFORE},
        space=SimpleNamespace(word=lambda address: words.get(address, 0), read=read),
        type_of=lambda address: info if address == flock else None,
        text={0x901: "sheep"}.get,
        keys_items=lambda keys, cells, most: (
            [(0x901, LIST, cells)] if (keys, cells) == (table, values) else []
        ),
    )
    held = snapshot((flock, NO_OWNER, Kind.OBJECT), (LIST, 0, Kind.OBJECT))
    assert Owners(held, objects).path(1).endswith(".sheep")


def test_the_table_of_interned_strings_is_known_by_keys_that_are_their_own_values() -> None:
    same = [(0x901, 0x901, 0)] * 100
    for items, path in (
        (same, "(interned strings)"),
        ([*same[:99], (0x901, 0x902, 0)], "(no module) dict"),
        (same[:5], "(no module) dict"),
    ):
        objects: Any = SimpleNamespace(
            **{**vars(OBJECTS), "dict_items": lambda address, most, items=items: items[:most]}
        )
        held = snapshot((MODULES, NO_OWNER, Kind.OBJECT), (NAMESPACE, NO_OWNER, Kind.OBJECT))
        assert Owners(held, objects).path(1) == path


def test_a_way_that_never_ends_is_cut() -> None:
    circle = snapshot((LIST, 1, Kind.OBJECT), (LOST, 0, Kind.OBJECT))
    assert Owners(circle, OBJECTS).path(0).startswith("...")


def touched(number: int, address: int, kind: Kind, pages: int, type_: int = 0) -> Touched:
    return Touched(number, address, type_, kind, pages, pages * 2)


def test_code_is_listed_apart_and_of_a_kind_the_first_three() -> None:
    kept = [touched(4, CODE, Kind.OBJECT, 9, CODE_TYPE)]
    kept += [touched(number, LIST, Kind.OBJECT, 5, LIST_TYPE) for number in (3, 6, 1, 2)]
    kept += [touched(5, ITEMS, Kind.LIST_ITEMS, 2)]
    objects = TouchedObjects(
        {each.number: each for each in kept},
        {each.group: each.os_pages for each in kept},
        frozenset({CODE_TYPE}),
    )
    owners, codes = most_touched(SNAPSHOT, OBJECTS, objects)
    assert [(owner.type, owner.os_pages) for owner in owners] == [
        *(("list", 5),) * 3,
        ("list items", 2),
    ]
    assert [(code.path, code.file) for code in codes] == [("app", "routes:12")]


def test_without_a_snapshot_no_one_owns_anything() -> None:
    assert most_touched(None, OBJECTS, TouchedObjects()) == ((), ())


def test_objects_are_named_by_the_container_that_holds_many_of_them() -> None:
    touched = TouchedObjects(
        samples={(Kind.OBJECT, LIST_TYPE): [Example(4, 30.0), Example(6, 20.0), Example(4, 10.0)]},
        restored={(Kind.OBJECT, LIST_TYPE): [Example(4, 99.0)]},
    )
    assert most_holding(SNAPSHOT, OBJECTS, touched) == (
        Holder("list", "list", "app.routes", 99, restored=True),
        Holder("list", "list", "app.routes", 40, restored=False),
    )
    assert most_holding(None, OBJECTS, touched) == ()


def test_containers_of_a_few_pages_are_not_spoken_of() -> None:
    touched = TouchedObjects(samples={(Kind.OBJECT, LIST_TYPE): [Example(4, 3.0)]})
    assert most_holding(SNAPSHOT, OBJECTS, touched) == ()


PAGE = 0x700000000000


class Heap:
    """One OS page, and the types that its words may point to."""

    def __init__(self, **flags: frozenset[str]) -> None:
        self.words = np.zeros(512, dtype=np.uint64)
        self.types = {
            0x5000 + 8 * i: TypeInfo(0x5000 + 8 * i, name, value, 16, 0, 0)
            for i, (name, value) in enumerate(flags.items())
        }
        self.space = self
        self.fields = FIELDS
        self.met: dict[int, TypeInfo] = {}
        self.pools = np.zeros(0, dtype=np.uint64)
        self.asked: list[int] = []

    def put(self, block: int, prefix: int, name: str) -> None:
        address = next(a for a, info in self.types.items() if info.name == name)
        self.words[(block + prefix + 8) // 8] = address

    def os_pages(self, pages: Any) -> Any:
        return np.array(
            [self.words if page == PAGE else np.zeros(512) for page in pages], np.uint64
        )

    def type_at(self, address: int) -> TypeInfo | None:
        self.asked.append(address)
        return self.types.get(address)


def test_what_points_into_a_pool_is_not_asked_whether_it_is_a_type() -> None:
    heap: Any = Heap(plain=frozenset())
    heap.put(0, 0, "plain")
    heap.words[(64 + 8) // 8] = 0x7F00_0000_4040  # an item of a list, say
    heap.words[(128 + 8) // 8] = 0x7F00_0001_0000
    heap.pools = np.array([0x7F00_0000_4000], dtype=np.uint64)
    starts = np.array([PAGE, PAGE + 64, PAGE + 128], dtype=np.uint64)
    assert (recognise(heap, starts).types != 0).tolist() == [True, False, False]
    assert heap.asked == [0x5000, 0x7F00_0001_0000]


def test_blocks_of_a_type_that_was_met_ask_for_no_other() -> None:
    heap: Any = Heap(tracked=GC)
    heap.put(0, 16, "tracked")
    recognise(heap, np.array([PAGE], dtype=np.uint64))
    heap.asked.clear()
    heap.put(64, 16, "tracked")
    heap.words[(64 + 8) // 8] = 0x7F00_0000_0000  # the list of the collector
    found = recognise(heap, np.array([PAGE + 64], dtype=np.uint64))
    assert found.prefixes.tolist() == [16] and heap.asked == []


def test_an_object_is_recognised_only_where_its_type_puts_it() -> None:
    heap: Any = Heap(plain=frozenset(), tracked=GC)
    heap.put(0, 0, "plain")
    heap.put(64, 16, "tracked")
    heap.put(128, 0, "tracked")  # its header would lie before the block
    heap.put(192, 32, "plain")
    starts = np.array([PAGE + at for at in (0, 64, 128, 192, 256)], dtype=np.uint64)
    found = recognise(heap, starts)
    names = [heap.types[t].name if t else "" for t in found.types.tolist()]
    assert names == ["plain", "tracked", "", "", ""]
    assert found.prefixes.tolist() == [0, 16, 0, 0, 0]


def test_words_of_pages_that_are_not_mapped_are_zero() -> None:
    heap: Any = Heap(plain=frozenset())
    heap.words[3] = 7
    starts = np.array([PAGE + 16, PAGE + 24, PAGE + 4080], dtype=np.uint64)
    at_8, at_16 = gather(heap, starts, [8, 16])
    assert at_8.tolist() == [7, 0, 0] and at_16.tolist() == [0, 0, 0]
