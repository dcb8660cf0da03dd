"""Words that differ, by their objects: the field, counter or storage that was written.

Objects are known from a snapshot, or recognised in the blocks that hold them. Both are named
the same way: by type and offset.
"""

from __future__ import annotations

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain import code_objects, recognition
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.distinct import Numbered, floor_to, holding, of_ascending, of_codes
from pasture_tools.explain.fields import Label, Meaning, limit_offset, object_field, storage_field
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.regions import Region
from pasture_tools.explain.snapshot import Kind
from pasture_tools.explain.words import Words
from pasture_tools.proc.address_space import AddressSpace, Array

_MAX_CODE_BYTES = 4 << 20


class ObjectWords:
    """Decides words by the objects, or storage of objects, that they lie in.

    Args:
        same_version: whether the interpreter's instructions are those of this one.
    """

    def __init__(self, objects: Objects, worker: AddressSpace, *, same_version: bool) -> None:
        self._objects, self._fields = objects, objects.fields
        self._parent, self._worker = objects.space, worker
        self._same_version = same_version
        self._types = Numbered()
        self._code_types: set[int] = set()

    @property
    def code_types(self) -> frozenset[int]:
        """Addresses of the types of code objects that were met."""
        return frozenset(self._code_types)

    def decide(self, words: Words) -> None:
        """Decide words of objects: those of the snapshot first, then those recognised."""
        self._by_snapshot(words)
        self._by_recognition(words)
        self._by_gathered_code(words)

    def _by_snapshot(self, words: Words) -> None:
        at = np.flatnonzero(words.open & (words.extents >= 0))
        if not len(at):
            return
        index = words.extents[at]
        kinds = words.pieces.kinds[index]
        offsets = (words.batch.addresses[at] - words.pieces.addresses[index]).astype(np.int64)
        is_object = kinds == Kind.OBJECT
        retyped = np.unique(index[is_object & (offsets == self._fields["object"]["ob_type"])])
        replaced = np.zeros(len(at), dtype=bool)
        if len(retyped):
            replaced = np.isin(index, retyped) & is_object & (words.block_starts[at] != 0)
        words.set(at[replaced], Cause.FREED, Label("malloc", "block freed and reused"))
        plain = is_object & ~replaced
        self._by_type(words, at[plain], words.pieces.types[index[plain]], offsets[plain])
        self._by_storage(words, at[~is_object], index[~is_object], offsets[~is_object])

    def _by_recognition(self, words: Words) -> None:
        at = np.flatnonzero(words.open & (words.block_starts != 0))
        if not len(at):
            return
        starts = words.block_starts[at]
        found = recognition.recognise(self._objects, of_ascending(starts))  # they ascend
        where = np.searchsorted(found.starts, starts)
        types, prefixes = found.types[where], found.prefixes[where]
        known = types != 0
        offsets = (words.batch.addresses[at] - starts).astype(np.int64) - prefixes
        self._by_type(words, at[known], types[known], offsets[known])

    def _by_gathered_code(self, words: Words) -> None:
        """Decide words of code objects that lie in no block."""
        outside = words.open & (words.block_starts == 0) & (words.regions == Region.ANONYMOUS)
        at = np.flatnonzero(outside)
        if not len(at):
            return
        addresses = words.batch.addresses[at]
        pages = of_ascending(floor_to(OS_PAGE_BYTES, addresses))
        starts, ends, types = code_objects.find_codes(self._objects, pages)
        which = holding(starts, ends, addresses)
        at, which = at[which >= 0], which[which >= 0]
        offsets = (words.batch.addresses[at] - starts[which]).astype(np.int64)
        self._by_type(words, at, types[which], offsets)

    def _by_type(self, words: Words, at: Array, types: Array, offsets: Array) -> None:
        if not len(at):
            return
        which = self._types.of(types)
        infos = [self._objects.type_at(address) for address in self._types.values]
        limits = np.array([limit_offset(info) for info in infos], dtype=np.int64)
        is_code = np.array([info is not None and info.name == "code" for info in infos])
        self._code_types.update(info.address for info in infos if info and info.name == "code")
        limited = np.minimum(offsets, limits[which])
        # No prefix is longer than 64 bytes.
        width = int(limited.max()) + 65
        pairs, pair_of = of_codes(which * width + limited + 64)
        meanings = []
        for pair in pairs.tolist():
            info, offset = infos[pair // width], pair % width - 64
            meanings.append(object_field(info, offset, self._fields))
        words.mean(at, pair_of, meanings)
        start = self._fields["code"]["co_code_adaptive"]
        inside = is_code[which] & (offsets >= start & ~7)
        self._code(words, at[inside], offsets[inside])

    def _code(self, words: Words, at: Array, offsets: Array) -> None:
        """Separate counters from other writes of code to itself."""
        if not len(at):
            return
        cache = Label("code", "inline cache")
        words.decide(at, Cause.CODE_CACHE, cache)
        if not self._same_version:
            return
        codes = words.batch.addresses[at] - offsets.astype(np.uint64)
        start = self._fields["code"]["co_code_adaptive"]
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            begin = int(code) + start
            units = self._parent.word(int(code) + self._fields["object"]["ob_size"]) & 0xFFFFFFFF
            size = self._fields["(code)"]["unit_bytes"] * units
            pad = begin % 8
            if not 0 < size <= _MAX_CODE_BYTES:
                continue
            before = self._parent.read(begin, size)
            after = self._worker.read(begin, size)
            if len(before) != size or len(after) != size:
                continue
            counters = code_objects.only_counters(before, after, pad)
            word = (offsets[chosen] - (start - pad)) // 8
            word = np.clip(word, 0, len(counters) - 1)
            counting = chosen[counters[word]]
            words.decide(at[counting], Cause.CODE_COUNTER, Label("code", "counter"))

    def _by_storage(self, words: Words, at: Array, index: Array, offsets: Array) -> None:
        if not len(at):
            return
        head_bytes = self._fields["keys"]["dk_indices"]
        meanings: list[Meaning] = []
        known: dict[tuple[int, int], int] = {}
        which = np.zeros(len(at), dtype=np.int64)
        heads: dict[int, bytes] = {}
        kinds, addresses = words.pieces.kinds, words.pieces.addresses
        for i, (piece, offset) in enumerate(zip(index.tolist(), offsets.tolist(), strict=True)):
            kind = Kind(int(kinds[piece]))
            keys = kind in (Kind.DICT_KEYS, Kind.SHARED_KEYS)
            place = (piece if keys else -int(kind), offset if keys else 0)
            if place not in known:
                if keys and piece not in heads:
                    heads[piece] = self._parent.read(int(addresses[piece]), head_bytes)
                head = heads.get(piece, b"").ljust(head_bytes, b"\0")
                known[place] = len(meanings)
                meanings.append(storage_field(kind, offset, head, self._fields))
            which[i] = known[place]
        words.mean(at, which, meanings)
