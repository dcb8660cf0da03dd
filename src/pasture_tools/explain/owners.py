"""The objects that a worker's writes fell on most: how to reach them, what code is called.

The snapshot has the way as numbers of records; names are read from the parent's memory. For
`Holder`s a sample of the objects of each kind is followed up to the first container that holds a
good part of the kind: numbers of pages are estimates there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from pasture_tools.explain.explanation import Grown, Holder, Owner
from pasture_tools.explain.objects import Objects, TypeInfo
from pasture_tools.explain.snapshot import NO_OWNER, Kind, Snapshot
from pasture_tools.explain.touched import Example, Touched, TouchedObjects
from pasture_tools.proc.address_space import AddressSpace

_MAX_OWNERS = 30
_MAX_OF_A_TYPE = 3
_MAX_STEPS = 24
_MAX_ITEMS = 20_000
_MAX_COMPARED = 100
_MAX_KEY = 40
_PLAIN_NAMES = {"func_code": "__code__", "func_globals": "__globals__", "func_defaults": "defaults"}
_TRANSPARENT = frozenset(("md_dict", "tp_dict", "__dict__", "func_dict"))
Key = TypeVar("Key", bound=Hashable)
_MAX_KINDS = 8
_NO_MODULE = "(no module)"
_MAX_ADDED = 1 << 40
_SIZE_OF = {
    **dict.fromkeys(("list", "bytearray", "deque"), ("object", "ob_size")),
    **dict.fromkeys(("dict", "OrderedDict", "defaultdict", "Counter"), ("dict", "ma_used")),
    "set": ("set", "used"),
}
"""The field that says how many items a container has, by the name of its type."""
_MIN_PART = 1 / 8
_MIN_OS_PAGES = 25
_MAX_OF_A_KIND = 3


@dataclass(frozen=True, slots=True)
class _Record:
    address: int
    kind: Kind
    owner: int


class Owners:
    """Finds paths for records of one snapshot."""

    def __init__(self, snapshot: Snapshot, objects: Objects) -> None:
        self._snapshot, self._objects = snapshot, objects
        self._known: dict[int, _Record] = {}
        self._dict_before = objects.fields["(before)"]["dict"]

    def path(self, number: int) -> str:
        """The way to a record, as in `django.urls.resolvers._route_regexes['about/']`.

        Begins with "(no module)" where only C code, a stack or the collector has the first object.
        """
        chain = [self._record(number)]
        while chain[-1].owner != NO_OWNER and len(chain) < _MAX_STEPS:
            chain.append(self._record(chain[-1].owner))
        cut = chain[-1].owner != NO_OWNER
        chain.reverse()
        if cut:
            text = "..."
        elif chain[0].address == int(self._snapshot.records.read(0, 1)["address"][0]):
            text = ""
        else:
            text = self._without_module(chain[0].address)
        is_attribute = False
        for i, (holder, held) in enumerate(pairwise(chain)):
            if held.kind != Kind.OBJECT:
                break
            step, is_attribute = self._step(holder.address, held.address, is_attribute)
            text += step.removeprefix("['").removesuffix("']") if not i and not text else step
        return text or "sys.modules"

    def _without_module(self, address: int) -> str:
        """A name for what no module holds; the table of strings is known by its items."""
        name = self._type_name(address)
        items = self._objects.dict_items(address, _MAX_COMPARED) if name == "dict" else []
        if len(items) == _MAX_COMPARED and all(key == value for key, value, _ in items):
            return "(interned strings)"
        return f"{_NO_MODULE} {name}"

    def code_name(self, address: int) -> tuple[str, str, int]:
        """Qualified name, file and first line of a code object."""
        at = self._objects.fields["code"]
        word, text = self._objects.space.word, self._objects.text
        return (
            text(word(address + at["co_qualname"])) or "?",
            text(word(address + at["co_filename"])) or "?",
            word(address + at["co_firstlineno"]) & 0xFFFFFFFF,
        )

    def ancestors(self, number: int) -> list[int]:
        """Numbers of the records on the way to a record, the nearest first, without the root."""
        found: list[int] = []
        owner = self._record(number).owner
        while owner != NO_OWNER and len(found) < _MAX_STEPS:
            found.append(owner)
            owner = self._record(owner).owner
        return found[:-1]

    def type_of(self, number: int) -> str:
        """Name of the type of the object that a record stands for, with its module."""
        info = self._objects.type_of(self._record(number).address)
        return self._objects.qualified_type_name(info.address) if info else "?"

    def _record(self, number: int) -> _Record:
        if number not in self._known:
            row = self._snapshot.records.read(number, 1)[0]
            self._known[number] = _Record(
                int(row["address"]), Kind(int(row["kind"])), int(row["owner"])
            )
        return self._known[number]

    def _type_name(self, address: int) -> str:
        info = self._objects.type_of(address)
        return info.name if info else "?"

    def _step(self, holder: int, held: int, is_attribute: bool) -> tuple[str, bool]:
        """Text of one step, and whether the next one is an attribute of this holder."""
        info = self._objects.type_of(holder)
        if info is None:
            return "->?", False
        if info.address == held:
            return ".__class__", False
        if info.name == "dict":
            return self._dict_step(holder, held, is_attribute), False
        if info.name in ("list", "tuple"):
            return self._item_step(info, holder, held), False
        name = self._value_name(info, holder, held) or self._field_name(info, holder, held)
        if name in _TRANSPARENT:
            return "", True
        return (f".{_PLAIN_NAMES.get(name, name)}" if name else f" -> {info.name}"), False

    def _dict_step(self, holder: int, held: int, is_attribute: bool) -> str:
        for key, value, _ in self._objects.dict_items(holder, _MAX_ITEMS):
            if value == held or key == held:
                text = self._objects.text(key)
                if text is None:
                    shown = f"<{self._type_name(key)}>"
                elif is_attribute:
                    return f".{text}"
                else:
                    cut = text[:_MAX_KEY] + ("..." if len(text) > _MAX_KEY else "")
                    shown = repr(cut)
                return f"[{shown}]" if value == held else f".key({shown})"
        return "[?]"

    def _item_step(self, info: TypeInfo, holder: int, held: int) -> str:
        at, space = self._objects.fields[info.name]["ob_item"], self._objects.space
        count = min(space.word(holder + self._objects.fields["object"]["ob_size"]), _MAX_ITEMS)
        first = space.word(holder + at) if info.name == "list" else holder + at
        items = space.read(first, count * 8)
        for i in range(len(items) // 8):
            if int.from_bytes(items[i * 8 : i * 8 + 8], "little") == held:
                return f"[{i}]"
        return "[?]"

    def _value_name(self, info: TypeInfo, holder: int, held: int) -> str:
        """Name of an attribute of an instance without a dictionary."""
        start = self._values_of(info, holder)
        if not start:
            return ""
        fields = self._objects.fields
        keys = self._objects.space.word(info.address + fields["type"]["ht_cached_keys"])
        cells = start + fields["values"]["values"]
        for key, value, _ in self._objects.keys_items(keys, cells, 32):
            if value == held:
                return self._objects.text(key) or ""
        return ""

    def _values_of(self, info: TypeInfo, holder: int) -> int:
        """Where the values of an instance's attributes begin; 0 if it has a dictionary."""
        if "INLINE_VALUES" in info.flags:
            return holder + info.basic_bytes
        if "MANAGED_DICT" not in info.flags:
            return 0
        word = self._objects.space.word(holder - self._dict_before)
        return word - 1 if word & 1 else 0  # CPython 3.12 marks values so

    def _field_name(self, info: TypeInfo, holder: int, held: int) -> str:
        if self._objects.space.word(holder - self._dict_before) == held:
            return "__dict__"
        known = self._objects.fields.get("type" if "TYPE_SUBCLASS" in info.flags else info.name, {})
        for name, offset in known.items():
            if self._objects.space.word(holder + offset) == held:
                return name
        for offset, name in info.members.items():
            if self._objects.space.word(holder + offset) == held:
                return name
        if info.dict_offset > 0 and self._objects.space.word(holder + info.dict_offset) == held:
            return "__dict__"
        return ""


def most_touched(
    snapshot: Snapshot | None, objects: Objects | None, touched: TouchedObjects
) -> tuple[tuple[Owner, ...], tuple[Owner, ...]]:
    """The objects with the most private pages, of the kinds with the most; code apart."""
    if objects is None or snapshot is None:
        return (), ()
    names = Owners(snapshot, objects)
    owners: list[Owner] = []
    codes: list[Owner] = []
    for group in touched.groups():
        if group[0].kind == Kind.OBJECT and group[0].type in touched.code_types:
            for found in group[:_MAX_OWNERS]:
                name, file, line = names.code_name(found.address)
                codes.append(Owner("code", name, f"{file}:{line}", found.os_pages, found.words))
            continue
        kind = type_name(objects, *group[0].group)
        for found in group[: min(_MAX_OF_A_TYPE, _MAX_OWNERS - len(owners))]:
            owners.append(Owner(kind, names.path(found.number), "", found.os_pages, found.words))
    return tuple(owners), tuple(codes)


def most_grown(
    snapshot: Snapshot | None,
    objects: Objects | None,
    worker: AddressSpace,
    touched: TouchedObjects,
) -> tuple[Grown, ...]:
    """The containers of the parent to which a worker has added most items."""
    if objects is None or snapshot is None:
        return ()
    found: list[tuple[int, Touched, str]] = []
    for one in touched.kept.values():
        info = objects.type_at(one.type) if one.kind == Kind.OBJECT else None
        holder, name = _SIZE_OF.get(info.name.rpartition(".")[2] if info else "", ("", ""))
        at = objects.fields.get(holder, {}).get(name)
        if info is not None and at is not None:
            items = worker.word(one.address + at) - objects.space.word(one.address + at)
            is_same = worker.word(one.address + objects.fields["object"]["ob_type"]) == one.type
            if is_same and 0 < items < _MAX_ADDED:
                found.append((items, one, info.name))
    names = Owners(snapshot, objects)
    found.sort(key=lambda one: -one[0])
    grown = (Grown(kind, names.path(one.number), items) for items, one, kind in found)
    # What no module leads to may have been freed, and something else lies there by now.
    held = [one for one in grown if not one.path.startswith(_NO_MODULE)][:_MAX_OF_A_TYPE]
    return tuple(one for one in held if one.items >= held[0].items * _MIN_PART)


def type_name(objects: Objects, kind: Kind, address: int) -> str:
    """Name of a type by its address, or of the sort of storage."""
    if kind != Kind.OBJECT:
        return kind.name.lower().replace("_", " ")
    return objects.qualified_type_name(address)


def most_holding(
    snapshot: Snapshot | None, objects: Objects | None, touched: TouchedObjects
) -> tuple[Holder, ...]:
    """The containers that hold most objects of the kinds with the most private pages."""
    if snapshot is None or objects is None:
        return ()
    names = Owners(snapshot, objects)
    found: list[Holder] = []
    for samples, restored in ((touched.samples, False), (touched.restored, True)):
        sizes = {group: sum(one.os_pages for one in some) for group, some in samples.items()}
        kinds = [group for group, _ in _largest(sizes)]
        kinds = [g for g in kinds if g[0] != Kind.OBJECT or g[1] not in touched.code_types]
        for group in kinds[:_MAX_KINDS]:
            found += _holders(names, type_name(objects, *group), samples[group], restored=restored)
    return tuple(sorted(found, key=lambda holder: -holder.os_pages))


def _holders(names: Owners, kind: str, sample: list[Example], *, restored: bool) -> list[Holder]:
    ways = [(names.ancestors(one.number), one.os_pages) for one in sample]
    below: dict[int, float] = defaultdict(float)
    for way, pages in ways:
        for number in way:
            below[number] += pages
    enough = _MIN_PART * sum(pages for _, pages in ways)
    held: dict[int, float] = defaultdict(float)
    for way, pages in ways:
        nearest = next((number for number in way if below[number] >= enough), None)
        if nearest is not None:
            held[nearest] += pages
    return [
        Holder(kind, names.type_of(number), names.path(number), round(pages), restored)
        for number, pages in _largest(held)[:_MAX_OF_A_KIND]
        if pages >= max(enough, _MIN_OS_PAGES)
    ]


def _largest(sizes: Mapping[Key, float]) -> list[tuple[Key, float]]:
    return sorted(sizes.items(), key=lambda item: -item[1])
