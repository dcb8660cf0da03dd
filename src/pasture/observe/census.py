"""The census of a parent, read back: what lay where when it was written.

Owns the format of the file on the reading side. Keeps in memory only what lies in pages
that are asked about; the rest stays in the file and is looked up by number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from pasture.errors import UsageError
from pasture.heap.census import MAGIC
from pasture.observe.memory import OS_PAGE_BYTES, Array

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
"""One record: struct census_record in src/native/census.h."""

_CHUNK_RECORDS = 1 << 18


class Kind(IntEnum):
    """What a record stands for: cpy_kind in src/native/cpython.h."""

    OBJECT = 0
    DICT_KEYS = 1
    DICT_VALUES = 2
    LIST_ITEMS = 3
    SET_TABLE = 4
    SHARED_KEYS = 5
    BYTES = 6


Fields = dict[str, dict[str, int]]
"""Offsets in bytes by holder and name."""


@dataclass(frozen=True, slots=True)
class Census:
    """An open census file.

    Attributes:
        pid: of the process that wrote it.
        policy: whose steps it had taken, by name.
        hexversion: of its interpreter.
        fields: offsets of its interpreter's structures.
        records: all of them, mapped from the file and not read yet.
    """

    path: Path
    pid: int
    policy: str
    hexversion: int
    fields: Fields
    records: Array


@dataclass(frozen=True, slots=True)
class Extents:
    """Pieces of memory in ascending order, each array one entry a piece.

    Attributes:
        starts, ends: uint64; the prefix of an object is part of it.
        addresses: uint64, of the object; the start of memory that is none.
        types: uint64, address of the type; 0 for memory that is no object.
        kinds: uint8, of `Kind`.
        numbers: int64, of the record in the census; -1 without one.
    """

    starts: Array
    ends: Array
    addresses: Array
    types: Array
    kinds: Array
    numbers: Array

    def lookup(self, addresses: Array) -> Array:
        """Index of the piece that holds each address, -1 for none."""
        if not len(self.starts):
            return np.full(len(addresses), -1, dtype=np.int64)
        found = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        inside = (found >= 0) & (addresses < self.ends[np.maximum(found, 0)])
        return np.where(inside, found, -1)


def fields_from(rows: list[tuple[str, str, int]]) -> Fields:
    """Offsets as the extension lists them."""
    fields: Fields = {}
    for holder, name, offset in rows:
        fields.setdefault(holder, {})[name] = offset
    return fields


def open_census(path: Path) -> Census:
    """Open a census file.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        with path.open("rb") as file:
            if file.readline() != MAGIC:
                raise ValueError("it does not begin as one")
            head = json.loads(file.readline())
            start = file.tell()
        size = path.stat().st_size - start
        count = size // RECORD.itemsize
        records = np.memmap(path, dtype=RECORD, mode="r", offset=start, shape=(count,))
        return Census(
            path,
            head["pid"],
            head["policy"],
            head["hexversion"],
            fields_from(head["fields"]),
            records,
        )
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{path} is no census of pasture: {error}",
            hint="set PASTURE_CENSUS for the server, so that the seal writes one",
        ) from None


def extents_in(census: Census, os_pages: Array) -> Extents:
    """What the census has in the given OS pages.

    Args:
        os_pages: addresses of pages, uint64, ascending.
    """
    kept = []
    for first in range(0, len(census.records), _CHUNK_RECORDS):
        part = np.array(census.records[first : first + _CHUNK_RECORDS])
        touches = _touches(part, os_pages)
        chosen = part[touches]
        kept.append((chosen, np.flatnonzero(touches) + first))
    if not kept:
        return join_extents([])
    records = np.concatenate([chosen for chosen, _ in kept])
    numbers = np.concatenate([numbers for _, numbers in kept])
    return Extents(*_sorted(records, numbers))


def _sorted(records: Array, numbers: Array) -> tuple[Array, ...]:
    starts = records["address"] - records["prefix"]
    order = np.argsort(starts, kind="stable")
    records, numbers = records[order], numbers[order]
    return (
        starts[order],
        records["address"] + records["bytes"],
        records["address"].copy(),
        records["type"].copy(),
        records["kind"].astype(np.uint8),
        numbers,
    )


def _touches(records: Array, os_pages: Array) -> Array:
    """Which records have a byte in one of the pages."""
    if not len(os_pages):
        return np.zeros(len(records), dtype=bool)
    page = np.uint64(OS_PAGE_BYTES)
    first = (records["address"] - records["prefix"]) // page * page
    at = np.minimum(np.searchsorted(os_pages, first), len(os_pages) - 1)
    nearest = os_pages[at]
    return (nearest >= first) & (nearest < records["address"] + np.maximum(records["bytes"], 1))


def join_extents(parts: list[Extents]) -> Extents:
    """Several lists of pieces as one, in ascending order."""
    if not parts:
        empty = np.zeros(0, dtype=np.uint64)
        none = np.zeros(0, dtype=np.int64)
        return Extents(empty, empty, empty, empty, none.astype(np.uint8), none)
    names = ("starts", "ends", "addresses", "types", "kinds", "numbers")
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    order = np.argsort(joined[0], kind="stable")
    return Extents(*(values[order] for values in joined))
