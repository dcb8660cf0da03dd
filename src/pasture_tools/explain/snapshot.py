"""The heap snapshot of a parent, read back.

Owns the format of the file on the reading side. Records stay in the file and are looked up by
number.

Another process wrote the file: a wrong head is an error, an impossible record counts as empty. The
file is read and never mapped: its owner may cut it short, which would end a process that has it
mapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from pasture.errors import UsageError
from pasture.interpreter import Fields, fields_from
from pasture.proc.os_page import ADDRESS_END
from pasture.sealing.snapshot import MAGIC
from pasture.trust.foreign_files import open_foreign
from pasture.trust.untrusted_text import printable
from pasture_tools.proc.address_space import WORD_BYTES, Array

NO_OWNER = 0xFFFFFFFF

RECORD = np.dtype(
    [
        ("address", "<u8"),
        ("type", "<u8"),
        ("bytes", "<u8"),
        ("owner", "<u4"),
        ("kind", "<u2"),
        ("prefix", "<u2"),
    ]
)
"""One record: snapshot_record in src/native/seal/snapshot.h."""

CHUNK_RECORDS = 1 << 18
"""How many are read at a time."""

_MAX_FILE_BYTES = 2 << 30  # 67 million records
_MAX_HEAD_BYTES = 1 << 20
_MAX_FIELDS = 1000
_MAX_POLICY = 100
_MAX_BYTES = np.uint64(1 << 44)
_MAX_OFFSET = 1 << 16
_MAX_PREFIX = 64

# Readers of objects take these for granted.
_NEEDED = {
    "object": ("ob_refcnt", "ob_type", "ob_size"),
    "dict": ("ma_keys", "ma_values"),
    "keys": ("dk_log2_size", "dk_log2_index_bytes", "dk_kind", "dk_nentries", "dk_indices"),
    "values": ("values",),
    "list": ("ob_item",),
    "tuple": ("ob_item",),
    "str": ("length", "state", "ascii_data", "compact_data"),
    "code": ("co_qualname", "co_filename", "co_firstlineno", "co_code_adaptive"),
    "type": (
        *("tp_name", "tp_basicsize", "tp_itemsize", "tp_flags", "tp_weaklistoffset"),
        *("tp_members", "tp_base", "tp_dict", "tp_dictoffset", "tp_version_tag"),
        *("ht_qualname", "ht_cached_keys", "_spec_cache", "members"),
    ),
    "(code)": ("unit_bytes",),
    "(str state)": ("kind", "compact", "ascii"),
    "(type flags)": ("MANAGED_DICT", "HEAPTYPE", "HAVE_GC", "TYPE_SUBCLASS"),
    "(before)": ("gc", "dict", "weakrefs"),
    "(keys)": ("general", "general_entry_bytes", "unicode_entry_bytes"),
    "(member)": ("bytes", "name", "offset"),
}


class Kind(IntEnum):
    """The sort of memory of a record: cpy_kind in src/native/cpython/storage.h."""

    OBJECT = 0
    DICT_KEYS = 1
    DICT_VALUES = 2
    LIST_ITEMS = 3
    SET_TABLE = 4
    SHARED_KEYS = 5
    BYTES = 6


@dataclass(slots=True)
class Records:
    """The records of an open snapshot file, read when they are asked for; closes the descriptor."""

    path: Path
    number: int
    start: int
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = (os.fstat(self.number).st_size - self.start) // RECORD.itemsize

    def __del__(self) -> None:
        os.close(self.number)

    def __len__(self) -> int:
        return self.count

    def read(self, first: int, count: int) -> Array:
        """Consecutive records; fewer at the end. UsageError if the file was cut short meanwhile."""
        count = max(0, min(count, self.count - first))
        rows = np.empty(count, dtype=RECORD)
        left, at = rows.view(np.uint8).data, self.start + first * RECORD.itemsize
        while left:
            done = os.preadv(self.number, [left], at)
            if not done:
                raise _no_snapshot(self.path, "it ends too early")
            left, at = left[done:], at + done
        return _without_impossible(rows, self.count)

    def chosen(self, numbers: Array) -> Array:
        """The records with these numbers (int64, ascending)."""
        found = [np.zeros(0, dtype=RECORD)]
        for first in range(0, self.count, CHUNK_RECORDS):
            low, high = np.searchsorted(numbers, (first, first + CHUNK_RECORDS))
            if high > low:
                part = numbers[low:high] - first
                found.append(self.read(first, int(part[-1]) + 1)[part])
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open snapshot file."""

    path: Path
    pid: int  # process that wrote it
    policy: str  # name of the policy whose steps it had taken
    hexversion: int  # version of its interpreter
    fields: Fields  # offsets of its interpreter's structures
    records: Records  # all of them, not read yet


def open_snapshot(path: Path, owners: Iterable[int] = ()) -> Snapshot:
    """Open a snapshot file, of this user, of root, or of one of the owners.

    Raises:
        UsageError: it cannot be read, is another user's, or is not a snapshot.
    """
    number = open_foreign(path, most_bytes=_MAX_FILE_BYTES, owners=owners)
    head, start = os.pread(number, _MAX_HEAD_BYTES, 0), len(MAGIC)
    line, end, _ = head[start:].partition(b"\n")
    records = Records(path, number, start + len(line) + 1)
    if not head.startswith(MAGIC) or not end:
        raise _no_snapshot(path, "it does not start with its magic number")
    try:
        said = json.loads(line)
        return Snapshot(
            path,
            _number(said["pid"]),
            printable(str(said["policy"]), _MAX_POLICY),
            _number(said["hexversion"]),
            _checked_fields(said["fields"]),
            records,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_snapshot(path, str(error)) from None


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError("a field of its header is not a number")
    return value


def _checked_fields(rows: Any) -> Fields:
    """Checks the offsets that the reader of objects relies on."""
    if len(rows) > _MAX_FIELDS:
        raise ValueError("it has too many fields")
    for holder, name, offset in rows:
        if not isinstance(holder, str) or not isinstance(name, str) or len(name) > 100:
            raise TypeError("a field has a name that is not a string")
        if not isinstance(offset, int) or not 0 <= offset < _MAX_OFFSET:
            raise ValueError(f"field {name!r} is at {offset!r}")
    fields = fields_from(rows)
    for holder, names in _NEEDED.items():
        for name in names:
            fields[holder][name]
    keys = fields["keys"]
    single = max(keys[name] for name in ("dk_log2_size", "dk_log2_index_bytes", "dk_kind"))
    if max(single + 1, keys["dk_nentries"] + WORD_BYTES) > keys["dk_indices"]:
        raise ValueError("a key table has fields in its indices")
    return fields


def _no_snapshot(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a heap snapshot of pasture: {why}",
        hint="set PASTURE_SNAPSHOT for the server, so that the seal writes one",
    )


def _are_all_possible(records: Array, count: int) -> bool:
    """Whether all records are possible, by their largest and smallest values, which is quick."""
    if not len(records):
        return True
    owners = records["owner"] + np.uint32(1)  # 0 for none
    return bool(
        records["address"].max() < np.uint64(ADDRESS_END)
        and records["address"].min() > _MAX_PREFIX
        and records["prefix"].max() <= _MAX_PREFIX
        and records["bytes"].max() < _MAX_BYTES
        and records["kind"].max() <= max(Kind)
        and owners.max() <= count
    )


def _without_impossible(records: Array, count: int) -> Array:
    """The records, each impossible one replaced by an empty one at address 0."""
    if _are_all_possible(records, count):
        return records
    possible = (
        (records["address"] < np.uint64(ADDRESS_END))
        & (records["address"] > records["prefix"])
        & (records["prefix"] <= _MAX_PREFIX)
        & (records["bytes"] < _MAX_BYTES)
        & (records["kind"] <= max(Kind))
        & ((records["owner"] < count) | (records["owner"] == NO_OWNER))
    )
    if not possible.all():
        records[~possible] = (0, 0, 0, NO_OWNER, Kind.OBJECT, 0)
    return records
