"""The words of one batch that differ: which of them have a cause by now, and which.

Invariant: a word that has been decided is decided once more only by the module that decided it
before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.difference import Batch
from pasture_tools.explain.extents import Extents
from pasture_tools.explain.fields import Label, Meaning
from pasture_tools.explain.regions import Regions
from pasture_tools.proc.address_space import Array

_UNSET = 255


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
    """A batch and the meaning of its words, each array one entry a word."""

    batch: Batch
    causes: Array  # uint8, of `Cause`
    labels: Array  # int64, places in `names`
    extents: Array  # int64, index into the extents; -1 for none
    names: tuple[Label, ...]  # the labels that were met so far, in this batch or an earlier one
    # Addresses of the types of code objects that were met so far.
    code_types: frozenset[int] = frozenset()


class Words:
    """The causes of the words of one batch so far.

    Attributes:
        regions: `Region` of each word.
        extents: index into the pieces of the parent of each word; -1 for none.
        block_starts: address of the block in use that each word lies in; 0 for none.
    """

    def __init__(self, batch: Batch, regions: Regions, pieces: Extents, labels: Labels) -> None:
        count = len(batch.addresses)
        self.batch, self.pieces = batch, pieces
        self.regions = regions.lookup(batch.addresses)
        self.extents = pieces.lookup(batch.addresses)
        self.block_starts = np.zeros(count, dtype=np.uint64)
        self._labels = labels
        self._causes = np.full(count, _UNSET, dtype=np.uint8)
        self._numbers = np.zeros(count, dtype=np.int64)

    @property
    def open(self) -> Array:
        """Mask of words without a cause."""
        return self._causes == _UNSET

    def set(self, chosen: Array, cause: Cause, label: Label) -> None:
        """Decide words (by mask or index) that are still open."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        self.decide(at[self._causes[at] == _UNSET], cause, label)

    def decide(self, at: Array, cause: Cause, label: Label) -> None:
        """Decide words by index, also those that have a cause."""
        self._causes[at] = cause
        self._numbers[at] = self._labels.number(label)

    def mean(self, at: Array, which: Array, meanings: list[Meaning]) -> None:
        """Decide words by index, each by one of some meanings."""
        causes = np.array([meaning.cause for meaning in meanings], dtype=np.uint8)
        labels = np.array([self._labels.number(m.label) for m in meanings], dtype=np.int64)
        self._causes[at] = causes[which]
        self._numbers[at] = labels[which]

    def classified(self, code_types: frozenset[int]) -> Classified:
        """The words once all are decided."""
        names = tuple(self._labels.all())
        return Classified(self.batch, self._causes, self._numbers, self.extents, names, code_types)
