"""From an offset within an object to the name of a field."""

from typing import Any

import pytest

pytest.importorskip("numpy")

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.fields import object_field, storage_field
from pasture_tools.explain.objects import TypeInfo
from pasture_tools.explain.snapshot import Kind

pytestmark = pytest.mark.interpreter

FIELDS = {
    "object": {"ob_refcnt": 0, "ob_type": 8, "ob_size": 16},
    "(before)": {"gc": 16, "dict": 24, "weakrefs": 32},
    "(keys)": {"general": 0, "general_entry_bytes": 24, "unicode_entry_bytes": 16},
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
PLAIN = TypeInfo(4096, "Plain", frozenset(["HAVE_GC"]), 40, -32, 0, {24: "slot"})
STR = TypeInfo(8192, "str", frozenset(), 64, 0, 0)


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
def test_words_of_a_table_with_text_keys_are_distinguished(
    offset: Any, cause: Any, name: Any
) -> None:
    head = bytes(8) + bytes((4, 4, 1)) + bytes(21)  # 16 bytes of indices, keys are texts
    meaning = storage_field(Kind.DICT_KEYS, offset, head, FIELDS)
    assert (meaning.cause, meaning.label.field) == (cause, name)
