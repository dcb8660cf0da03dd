"""The objects of the parent, and their storage, that a worker wrote to.

Counts pages and words of each while a window of the snapshot is looked at; keeps of each kind the
few with the most. Words in memory that was free in the parent belong to no object, whatever the
snapshot says. A page with several objects is charged to them in proportion to the words of each, as
it is to its causes, so that the pages of all objects are no more than there are. Each kind, a type
or a sort of storage, has its own ranking: among all objects, a type with thousands of instances
written once each would never rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.distinct import of_ascending
from pasture_tools.explain.extents import Extents
from pasture_tools.explain.snapshot import Kind
from pasture_tools.explain.words import Classified
from pasture_tools.proc.address_space import Array

_KEPT_OF_A_KIND = 50
_KEPT_CODE = 500
_SAMPLED = 100
"""Objects of a kind that are kept of each window to find what holds them."""

_STORAGE_KINDS = 16  # addresses of types are larger

_OF_NO_OBJECT = (
    *(Cause.POOL_HEADER, Cause.FREE_LIST, Cause.HOLE),
    *(Cause.FREE_MEMORY, Cause.CHUNK_HEADER),
)

_IN_PAGE = np.arange(1, 8, 2, dtype=np.uint64) * np.uint64(OS_PAGE_BYTES // 8)
"""Places in a page whose objects are looked up."""

KindAndType = tuple[Kind, int]
"""A kind: of storage, or `Kind.OBJECT` and the address of the type."""


@dataclass(frozen=True, slots=True)
class Touched:
    """One object, or storage of one, in which words differ."""

    number: int  # number of its record in the snapshot
    # address, type, kind: what the record says.
    address: int
    type: int
    kind: Kind
    # os_pages, words: number of those that differ.
    os_pages: int
    words: int

    @property
    def group(self) -> KindAndType:
        return self.kind, self.type if self.kind == Kind.OBJECT else 0


@dataclass(frozen=True, slots=True)
class Example:
    """A sampled object of a kind."""

    number: int  # number of its record in the snapshot
    os_pages: float  # number of pages that it stands for


class Window:
    """Pages and words of each object while the pages of one window are looked at.

    Attributes:
        code_types: addresses of the types of code objects among them.
        restored: places of some objects in pages without a difference, and how many pages each
            stands for.
    """

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.pages_of = np.zeros(len(extents.starts), dtype=np.int64)
        self.words_of = np.zeros(len(extents.starts), dtype=np.int64)
        self.charged_of = np.zeros(len(extents.starts), dtype=np.float64)
        self.code_types: frozenset[int] = frozenset()
        self.restored: list[tuple[int, float]] = []

    def add(self, classified: Classified) -> None:
        """Add a batch of this window."""
        self.code_types |= classified.code_types
        batch = classified.batch
        changed = np.bincount(batch.rows, minlength=len(batch.os_pages))
        self._look_at_restored(batch.os_pages[changed == 0])
        held = (classified.extents >= 0) & ~np.isin(classified.causes, _OF_NO_OBJECT)
        pieces = classified.extents[held]
        if not len(pieces):
            return
        first = int(pieces[0])  # they ascend
        words = np.bincount(pieces - first)
        self.words_of[first : first + len(words)] += words
        charges = np.bincount(pieces - first, weights=1 / changed[batch.rows[held]])
        self.charged_of[first : first + len(charges)] += charges
        width = len(batch.os_pages)
        spread = of_ascending(pieces * width + batch.rows[held])  # both ascend
        pages = np.bincount(spread // width - first)
        self.pages_of[first : first + len(pages)] += pages

    def _look_at_restored(self, pages: Array) -> None:
        """Note what lies in some of the pages that were written and are equal again."""
        if not len(pages) or not len(self.extents.starts):
            return
        chosen = pages[:: -(-len(pages) // _SAMPLED)]
        places = (chosen[:, None] + _IN_PAGE[None, :]).reshape(-1)
        each = len(pages) / len(places)
        found = self.extents.lookup(places)
        self.restored += [(place, each) for place in found[found >= 0].tolist()]

    def touched(self, at: int, kind: Kind) -> Touched:
        """One of the objects."""
        extents = self.extents
        return Touched(
            number=int(extents.numbers[at]),
            address=int(extents.addresses[at]),
            type=int(extents.types[at]),
            kind=kind,
            os_pages=int(self.pages_of[at]),
            words=int(self.words_of[at]),
        )


@dataclass(slots=True)
class TouchedObjects:
    """Running sums."""

    # Objects with the most pages of their kind, by number.
    kept: dict[int, Touched] = field(default_factory=dict)
    # Pages charged to all objects of a kind, by kind.
    os_pages: dict[KindAndType, float] = field(default_factory=dict)
    # Addresses of the types of code objects, of which more are kept.
    code_types: frozenset[int] = frozenset()
    # Some objects of each kind, evenly out of all.
    samples: dict[KindAndType, list[Example]] = field(default_factory=dict)
    # Some objects in pages that were written and are equal again.
    restored: dict[KindAndType, list[Example]] = field(default_factory=dict)

    def add(self, window: Window) -> None:
        """Keep the objects of a window with the most pages; add up what spans windows."""
        self.code_types |= window.code_types
        for place, pages in window.restored:
            kind = Kind(int(window.extents.kinds[place]))
            group = kind, int(window.extents.types[place]) if kind == Kind.OBJECT else 0
            sampled = Example(int(window.extents.numbers[place]), pages)
            self.restored.setdefault(group, []).append(sampled)
        at = np.flatnonzero(window.pages_of)
        kinds, types = window.extents.kinds[at], window.extents.types[at]
        keys = np.where(kinds == Kind.OBJECT, types, kinds.astype(np.uint64))
        order = np.lexsort((-window.words_of[at], -window.pages_of[at], keys))
        at, keys = at[order], keys[order]
        firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(at) else at
        for first, after in zip(firsts, (*firsts[1:], len(at)), strict=False):
            self._keep(window, at[first:after], int(keys[first]))

    def _keep(self, window: Window, ranked: Array, key: int) -> None:
        kind = Kind(key) if key < _STORAGE_KINDS else Kind.OBJECT
        group = kind, 0 if key < _STORAGE_KINDS else key
        pages = float(window.charged_of[ranked].sum())
        self.os_pages[group] = self.os_pages.get(group, 0) + pages
        places = np.sort(ranked)[:: -(-len(ranked) // _SAMPLED)]  # every n-th by address
        numbers = window.extents.numbers[places].tolist()
        each = pages / len(numbers)
        self.samples.setdefault(group, []).extend(Example(number, each) for number in numbers)
        most = _KEPT_CODE if key in self.code_types else _KEPT_OF_A_KIND
        for i in ranked[:most].tolist():
            found = window.touched(i, kind)
            before = self.kept.get(found.number)
            if before is not None:
                os_pages, words = before.os_pages + found.os_pages, before.words + found.words
                found = replace(before, os_pages=os_pages, words=words)
            self.kept[found.number] = found

    def groups(self) -> list[list[Touched]]:
        """The objects that were kept, by kind: kinds and objects with the most pages first."""
        found: dict[KindAndType, list[Touched]] = {}
        for touched in sorted(self.kept.values(), key=lambda t: (-t.os_pages, -t.words)):
            found.setdefault(touched.group, []).append(touched)
        return sorted(found.values(), key=lambda group: -self.os_pages[group[0].group])
