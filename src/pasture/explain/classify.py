"""The cause of each word that differs between a parent and its worker.

Joins the difference with what lies there: objects and their storage (census, or recognised
from memory), pools, chunks, mappings. Owns the order in which these are asked: a block that
is free in the parent holds no object, whatever an old census says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pasture.explain import allocator, bytecode, recognition, regions
from pasture.explain.allocator import Chunks, Pools
from pasture.explain.causes import Cause
from pasture.explain.difference import Batch
from pasture.explain.distinct import Numbered, of_codes
from pasture.explain.fields import Label, Meaning, limit_offset, object_field, storage_field
from pasture.explain.objects import Objects
from pasture.explain.regions import Region, Regions
from pasture.explain.snapshot import NOTHING, Fields, Kind
from pasture.proc.address_space import AddressSpace, Array

_TYPE_OFFSET = 8
_UNSET = 255
_MOST_CODE_BYTES = 4 << 20


@dataclass(slots=True)
class Labels:
    """Numbers for labels, in the order in which they were first met."""

    numbers: dict[Label, int] = field(default_factory=dict)

    def number(self, label: Label) -> int:
        return self.numbers.setdefault(label, len(self.numbers))

    def all(self) -> list[Label]:
        return list(self.numbers)


@dataclass(frozen=True, slots=True)
class Classified:
    """A batch and what its words stand for, each array one entry a word.

    Attributes:
        causes: uint8, of `Cause`.
        labels: int64, numbers of `Labels`.
        extents: int64, index into the extents; -1 for none.
    """

    batch: Batch
    causes: Array
    labels: Array
    extents: Array


class Classifier:
    """Finds causes for one pair of processes.

    Args:
        parent, worker: their memory.
        fields: offsets of the interpreter; None if it is one that nobody here knows.
        same_version: whether the interpreter's instructions are those of this one.
        has_census: whether memory in use without a record is known to be no object.
    """

    def __init__(
        self,
        parent: AddressSpace,
        worker: AddressSpace,
        fields: Fields | None,
        *,
        same_version: bool,
        has_census: bool,
    ) -> None:
        self.parent, self.worker = parent, worker
        self.extents = NOTHING  # objects and storage of the parent where words are looked up
        self.code_types: set[int] = set()
        self.fields = fields
        self.objects = Objects(parent, fields) if fields else None
        self.same_version, self.has_census = same_version, has_census
        self.labels = Labels()
        self._types = Numbered()
        self.regions = Regions(worker.mappings)
        self._chunks: tuple[Chunks, Chunks] | None = None

    def classify(self, batch: Batch) -> Classified:
        """Find the cause of every word of a batch."""
        words = _Words(batch, self.regions.lookup(batch.addresses))
        words.extents = self.extents.lookup(batch.addresses)
        self._by_region(words)
        self._by_pool(words)
        self._by_chunk(words)
        self._by_object(words)
        self._by_recognition(words)
        self._rest(words)
        return Classified(batch, words.causes, words.labels, words.extents)

    def chunks(self) -> tuple[Chunks, Chunks]:
        """The chunks of the main heaps of parent and worker, read once."""
        if self._chunks is None:
            self._chunks = allocator.read_chunks(self.parent), allocator.read_chunks(self.worker)
        return self._chunks

    # --- Steps: each decides words that no earlier one has decided ------------------

    def _by_region(self, words: _Words) -> None:
        self._set(words, words.regions == Region.STACK, Cause.STACK, Label("stack", ""))

    def _by_pool(self, words: _Words) -> None:
        at = np.flatnonzero(words.open & (words.regions == Region.ANONYMOUS))
        if not len(at):
            return
        addresses = words.batch.addresses[at]
        bases = allocator.pool_bases(addresses)
        batch = words.batch
        before = allocator.read_pools(self.parent, bases, batch.os_pages, batch.before)
        after = allocator.read_pools(self.worker, bases, batch.os_pages, batch.after)
        index = before.index(addresses)
        fresh = (index < 0) & (after.index(addresses) >= 0) & (words.extents[at] < 0)
        self._set(words, at[fresh], Cause.FREE_MEMORY, Label("pymalloc", "free pool"))
        held = index >= 0
        self._in_pools(words, at[held], index[held], before, after)

    def _in_pools(
        self, words: _Words, at: Array, index: Array, before: Pools, after: Pools
    ) -> None:
        addresses = words.batch.addresses[at]
        block = before.blocks(index, addresses)
        head = block < 0
        was_free = before.free[index, np.maximum(block, 0)] & ~head
        same = after.valid[index] & (after.block_bytes[index] == before.block_bytes[index])
        is_free = after.free[index, np.maximum(block, 0)]
        used = before.used[index] > 0
        pool = Label("pymalloc", "pool header")
        self._set(words, at[head & used], Cause.POOL_HEADER, pool)
        dense = (was_free | head) & ~used
        self._set(words, at[dense], Cause.FREE_MEMORY, Label("pymalloc", "free pool"))
        links = was_free & used & same & is_free
        self._set(words, at[links], Cause.FREE_LIST, Label("pymalloc", "free block"))
        holes = was_free & used & ~(same & is_free)
        self._set(words, at[holes], Cause.HOLE, Label("pymalloc", "block in a shared pool"))
        gone = ~head & ~was_free & (~same | is_free)
        self._set(words, at[gone], Cause.FREED, Label("pymalloc", "block freed"))
        live = ~head & ~was_free & same & ~is_free
        starts = before.addresses[index] + (
            allocator.HEADER_BYTES + block * before.block_bytes[index]
        ).astype(np.uint64)
        words.block_starts[at[live]] = starts[live]
        words.block_bytes[at[live]] = before.block_bytes[index][live]

    def _by_chunk(self, words: _Words) -> None:
        at = np.flatnonzero(words.open & (words.regions == Region.HEAP))
        if not len(at):
            return
        before, after = self.chunks()
        # The word before a header belongs to the chunk before it while that is in use.
        addresses = words.batch.addresses[at] - np.uint64(8)
        index, later = before.index(addresses), after.index(addresses)
        known = index >= 0
        at, index, later, addresses = at[known], index[known], later[known], addresses[known]
        if not len(at):
            return
        start = before.starts[index]
        top = index == len(before.starts) - 1
        moved = (later < 0) | (after.starts[later] != start)
        is_used = after.in_use[later] | (later == len(after.starts) - 1)
        head = (addresses == start) & ~top
        was_used = before.in_use[index]
        self._set(words, at[top], Cause.FREE_MEMORY, Label("malloc", "top of the heap"))
        self._set(words, at[head], Cause.CHUNK_HEADER, Label("malloc", "chunk header"))
        reused = ~was_used & (moved | is_used)
        self._set(words, at[reused], Cause.HOLE, Label("malloc", "free chunk"))
        self._set(words, at[~was_used], Cause.FREE_LIST, Label("malloc", "free chunk"))
        gone = was_used & (moved | ~is_used)
        self._set(words, at[gone], Cause.FREED, Label("malloc", "chunk freed"))
        words.block_starts[at] = start + np.uint64(16)

    def _by_object(self, words: _Words) -> None:
        at = np.flatnonzero(words.open & (words.extents >= 0))
        if not len(at) or self.fields is None:
            return
        index = words.extents[at]
        kinds = self.extents.kinds[index]
        offsets = (words.batch.addresses[at] - self.extents.addresses[index]).astype(np.int64)
        is_object = kinds == Kind.OBJECT
        retyped = np.unique(index[is_object & (offsets == _TYPE_OFFSET)])
        replaced = np.zeros(len(at), dtype=bool)
        if len(retyped):
            replaced = np.isin(index, retyped) & is_object & (words.block_starts[at] != 0)
        self._set(words, at[replaced], Cause.FREED, Label("malloc", "block freed and reused"))
        plain = is_object & ~replaced
        self._objects(words, at[plain], self.extents.types[index[plain]], offsets[plain])
        self._storage(words, at[~is_object], index[~is_object], offsets[~is_object])

    def _by_recognition(self, words: _Words) -> None:
        at = np.flatnonzero(words.open & (words.block_starts != 0))
        if not len(at) or self.objects is None:
            return
        starts = words.block_starts[at]
        found = recognition.recognise(self.objects, np.unique(starts))
        where = np.searchsorted(found.starts, starts)
        types, prefixes = found.types[where], found.prefixes[where]
        known = types != 0
        offsets = (words.batch.addresses[at] - starts).astype(np.int64) - prefixes
        self._objects(words, at[known], types[known], offsets[known])

    def _rest(self, words: _Words) -> None:
        data = words.open & (words.regions == Region.INTERPRETER)
        self._set(words, data, Cause.INTERPRETER_DATA, Label("interpreter", ""))
        for i in np.unique(words.mappings_of(words.open, Region.LIBRARY, self.regions)):
            name = self.regions.name(int(i))
            inside = words.open & (self.regions.index(words.batch.addresses) == i)
            self._set(words, inside, Cause.LIBRARY_DATA, Label(name, ""))
        if self.has_census:
            heap = words.open & (words.block_starts != 0)
            self._set(words, heap, Cause.C_ALLOCATION, Label("C allocation", "block"))
            mapped = words.open & (words.regions == Region.ANONYMOUS)
            self._set(words, mapped, Cause.C_ALLOCATION, Label("C allocation", "mapped memory"))
        self._set(words, words.open, Cause.UNKNOWN, Label("unknown", ""))

    # --- Objects --------------------------------------------------------------------

    def _objects(self, words: _Words, at: Array, types: Array, offsets: Array) -> None:
        """Decide words by the types of the objects that hold them."""
        if not len(at) or self.objects is None or self.fields is None:
            return
        which = self._types.of(types)
        infos = [self.objects.type_at(address) for address in self._types.values]
        limits = np.array([limit_offset(info) for info in infos], dtype=np.int64)
        is_code = np.array([info is not None and info.name == "code" for info in infos])
        self.code_types.update(info.address for info in infos if info and info.name == "code")
        limited = np.minimum(offsets, limits[which])
        # No prefix is longer than 64 bytes.
        width = int(limited.max()) + 65
        pairs, pair_of = of_codes(which * width + limited + 64)
        meanings = []
        for pair in pairs.tolist():
            info, offset = infos[pair // width], pair % width - 64
            meanings.append(object_field(info, offset, self.fields))
        self._mean(words, at, pair_of, meanings)
        start = self.fields["code"]["co_code_adaptive"]
        inside = is_code[which] & (offsets >= start & ~7)
        self._code(words, at[inside], offsets[inside])

    def _code(self, words: _Words, at: Array, offsets: Array) -> None:
        """Tell counters from other writes of code to itself."""
        if not len(at):
            return
        cache = Label("code", "inline cache")
        self._decide(words, at, Cause.CODE_CACHE, cache)
        if not self.same_version or self.fields is None:
            return
        codes = words.batch.addresses[at] - offsets.astype(np.uint64)
        start = self.fields["code"]["co_code_adaptive"]
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            begin, size = int(code) + start, _code_bytes(self.parent, int(code))
            pad = begin % 8
            if not 0 < size <= _MOST_CODE_BYTES:
                continue
            before = self.parent.read(begin, size)
            after = self.worker.read(begin, size)
            if len(before) != size or len(after) != size:
                continue
            counters = bytecode.only_counters(before, after, pad)
            word = (offsets[chosen] - (start - pad)) // 8
            word = np.clip(word, 0, len(counters) - 1)
            counting = chosen[counters[word]]
            self._decide(words, at[counting], Cause.CODE_COUNTER, Label("code", "counter"))

    def _storage(self, words: _Words, at: Array, index: Array, offsets: Array) -> None:
        """Decide words by the storage that holds them."""
        if not len(at) or self.fields is None:
            return
        head_bytes = self.fields["keys"]["dk_indices"]
        meanings: list[Meaning] = []
        known: dict[tuple[int, int], int] = {}
        which = np.zeros(len(at), dtype=np.int64)
        heads: dict[int, bytes] = {}
        kinds, addresses = self.extents.kinds, self.extents.addresses
        for i, (piece, offset) in enumerate(zip(index.tolist(), offsets.tolist(), strict=True)):
            kind = Kind(int(kinds[piece]))
            keys = kind in (Kind.DICT_KEYS, Kind.SHARED_KEYS)
            place = (piece if keys else -int(kind), offset if keys else 0)
            if place not in known:
                if keys and piece not in heads:
                    heads[piece] = self.parent.read(int(addresses[piece]), head_bytes)
                head = heads.get(piece, b"").ljust(head_bytes, b"\0")
                known[place] = len(meanings)
                meanings.append(storage_field(kind, offset, head, self.fields))
            which[i] = known[place]
        self._mean(words, at, which, meanings)

    # --- Decisions ------------------------------------------------------------------

    def _mean(self, words: _Words, at: Array, which: Array, meanings: list[Meaning]) -> None:
        causes = np.array([meaning.cause for meaning in meanings], dtype=np.uint8)
        labels = np.array([self.labels.number(m.label) for m in meanings], dtype=np.int64)
        words.causes[at] = causes[which]
        words.labels[at] = labels[which]

    def _set(self, words: _Words, chosen: Array, cause: Cause, label: Label) -> None:
        """Decide words (by mask or index) that are still open."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        self._decide(words, at[words.causes[at] == _UNSET], cause, label)

    def _decide(self, words: _Words, at: Array, cause: Cause, label: Label) -> None:
        words.causes[at] = cause
        words.labels[at] = self.labels.number(label)


class _Words:
    """What is known of the words of one batch so far."""

    def __init__(self, batch: Batch, regions_of: Array) -> None:
        count = len(batch.addresses)
        self.batch = batch
        self.regions = regions_of
        self.causes = np.full(count, _UNSET, dtype=np.uint8)
        self.labels = np.zeros(count, dtype=np.int64)
        self.extents = np.full(count, -1, dtype=np.int64)
        self.block_starts = np.zeros(count, dtype=np.uint64)
        self.block_bytes = np.zeros(count, dtype=np.int64)

    @property
    def open(self) -> Array:
        """Mask of words without a cause."""
        return self.causes == _UNSET

    def mappings_of(self, chosen: Array, region: Region, where: regions.Regions) -> Array:
        """Indices of the mappings of chosen words in one kind of region."""
        return where.index(self.batch.addresses[chosen & (self.regions == region)])


def _code_bytes(space: AddressSpace, address: int) -> int:
    return 2 * (space.word(address + 16) & 0xFFFFFFFF)
