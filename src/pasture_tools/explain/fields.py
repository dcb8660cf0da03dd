"""From an offset within an object to the name of a field, and to the cause it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pasture.interpreter import Fields
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.objects import TypeInfo, key_entry_bytes
from pasture_tools.explain.snapshot import Kind
from pasture_tools.proc.address_space import WORD_BYTES

_MIN_BYTES = 2 * WORD_BYTES
"""The count and the type of an object."""

_HOLDERS = {"tuple": "tuple", "frozenset": "set"}
_WEAKREF_FIELDS = ("weakref", "weaklist", "wr_prev", "wr_next")
_STORAGE = {
    Kind.DICT_VALUES: Cause.DICT_VALUES,
    Kind.LIST_ITEMS: Cause.LIST_STORAGE,
    Kind.SET_TABLE: Cause.SET_STORAGE,
}


@dataclass(frozen=True, slots=True)
class Label:
    """The type of a written object (or a name for other memory), and the field."""

    type: str
    field: str

    def __str__(self) -> str:
        return f"{self.type}.{self.field}" if self.field else self.type


@dataclass(frozen=True, slots=True)
class Meaning:
    """The cause and the label of a word."""

    cause: Cause
    label: Label


def limit_offset(info: TypeInfo | None) -> int:
    """The offset from which all words of a type mean the same, so that few are looked up."""
    return max(info.basic_bytes, _MIN_BYTES) if info else _MIN_BYTES


def object_field(info: TypeInfo | None, offset: int, fields: Fields) -> Meaning:
    """Meaning of an offset of an object of that type."""
    if offset == 0:
        return Meaning(Cause.REFERENCE_COUNT, Label(info.name if info else "?", "ob_refcnt"))
    if info is None:
        return Meaning(Cause.UNKNOWN, Label("?", f"offset {offset}"))
    if offset < 0:
        return _before(info, offset, fields["(before)"])
    name = _name(info, offset, fields)
    return Meaning(_cause(info, offset, name), Label(info.name, name))


def _before(info: TypeInfo, offset: int, before: Mapping[str, int]) -> Meaning:
    if -offset <= before["gc"]:
        name = "_gc_next" if -offset == before["gc"] else "_gc_prev"
        return Meaning(Cause.GC_HEADER, Label(info.name, name))
    if offset == -before["weakrefs"] == info.weakref_offset:
        return Meaning(Cause.WEAKREF_LIST, Label(info.name, "weak references"))
    name = "__dict__" if -offset in (before["dict"], before["weakrefs"]) else f"offset {offset}"
    return Meaning(Cause.OBJECT_FIELD, Label(info.name, name))


def _name(info: TypeInfo, offset: int, fields: Fields) -> str:
    is_type = "TYPE_SUBCLASS" in info.flags
    known = fields["type"] if is_type else fields.get(_HOLDERS.get(info.name, info.name), {})
    for name, at in known.items():
        if at == offset:
            return name
    if offset in info.members:
        return info.members[offset]
    if offset == info.weakref_offset:
        return "weak references"
    if offset == info.dict_offset:
        return "__dict__"
    if offset == fields["object"]["ob_type"]:
        return "ob_type"
    if offset >= info.basic_bytes:
        return "values" if "INLINE_VALUES" in info.flags else "items"
    if is_type and known and offset >= known["_spec_cache"]:
        return "_spec_cache"
    return f"offset {offset}"


def _cause(info: TypeInfo, offset: int, name: str) -> Cause:
    if name == "weak references" or any(part in name for part in _WEAKREF_FIELDS):
        return Cause.WEAKREF_LIST
    if name in ("hash", "ob_shash", "ob_hash"):
        return Cause.HASH
    if name in ("tp_version_tag", "tp_versions_used", "_spec_cache"):
        return Cause.TYPE_VERSION
    if name == "values" and offset >= info.basic_bytes:
        return Cause.DICT_VALUES
    return Cause.OBJECT_FIELD


def storage_field(kind: Kind, offset: int, head: bytes, fields: Fields) -> Meaning:
    """Meaning of an offset of memory that an object owns; `head` has a key table's head."""
    if kind in (Kind.DICT_KEYS, Kind.SHARED_KEYS):
        return _keys_field(kind, offset, head, fields)
    if kind == Kind.BYTES:
        return Meaning(Cause.OBJECT_FIELD, Label("bytearray", "contents"))
    cause = _STORAGE[kind]
    return Meaning(cause, Label(cause.label, "items"))


def _keys_field(kind: Kind, offset: int, head: bytes, fields: Fields) -> Meaning:
    at = fields["keys"]
    what = "shared keys" if kind == Kind.SHARED_KEYS else "dict keys"
    if offset < at["dk_indices"]:
        name = next((n for n, o in at.items() if o & ~7 == offset and n != "dk_log2_size"), "head")
        if offset == at["dk_log2_size"] & ~7:
            name = "dk_version"
        return Meaning(Cause.DICT_KEYS, Label(what, name))
    start = at["dk_indices"] + (1 << min(head[at["dk_log2_index_bytes"]], 40))
    if offset < start:
        return Meaning(Cause.DICT_KEYS, Label(what, "dk_indices"))
    entry_bytes = key_entry_bytes(fields, head)
    is_last = (offset - start) % entry_bytes // WORD_BYTES == entry_bytes // WORD_BYTES - 1
    if is_last and kind == Kind.DICT_KEYS:
        return Meaning(Cause.DICT_VALUES, Label("dict", "values"))
    return Meaning(Cause.DICT_KEYS, Label(what, "dk_entries"))
