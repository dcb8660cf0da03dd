"""Sums over the batches of a difference: what each cause, field and type takes.

A page is charged to its causes in proportion to the words that each of them changed, so
that the bytes of all causes add up to the bytes of all private pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.distinct import of_codes
from pasture_tools.explain.fields import Label
from pasture_tools.explain.words import Classified
from pasture_tools.proc.address_space import WORD_BYTES, Array

_CAUSES = len(Cause)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one cause, type or field."""

    bytes: float = 0.0  # memory charged to it
    os_pages: int = 0  # number of pages in which it occurs
    only_os_pages: int = 0  # number of pages in which nothing else of its kind occurs
    words: int = 0  # number of words of 8 bytes that differ because of it

    def __add__(self, other: Share) -> Share:
        return Share(
            self.bytes + other.bytes,
            self.os_pages + other.os_pages,
            self.only_os_pages + other.only_os_pages,
            self.words + other.words,
        )


@dataclass(slots=True)
class Tally:
    """Running sums."""

    causes: dict[Cause, Share] = field(default_factory=dict)  # share of each cause
    # Share of each pair of cause and label.
    fields: dict[tuple[Cause, Label], Share] = field(default_factory=dict)
    types: dict[str, Share] = field(default_factory=dict)  # share of each type of a label

    def add_pages(self, cause: Cause, label: Label, count: int) -> None:
        """Add whole pages of one cause."""
        if count:
            share = Share(count * OS_PAGE_BYTES, count, count, 0)
            self.causes[cause] = self.causes.get(cause, Share()) + share
            self.fields[cause, label] = self.fields.get((cause, label), Share()) + share

    def add_new(self, os_pages: int, words: Array, labels: list[Label]) -> None:
        """Add pages of new memory, by the number of a label for each of their words."""
        share = Share(os_pages * OS_PAGE_BYTES, os_pages, os_pages, 0)
        self.causes[Cause.NEW_MEMORY] = self.causes.get(Cause.NEW_MEMORY, Share()) + share
        rows = np.repeat(np.arange(os_pages), len(words) // os_pages)
        weights = np.full(len(words), WORD_BYTES, dtype=np.float64)
        for number, found in _shares(rows, words, weights).items():
            key = Cause.NEW_MEMORY, labels[number]
            self.fields[key] = self.fields.get(key, Share()) + replace(found, words=0)

    def add(self, classified: Classified) -> None:
        """Add a batch."""
        batch, labels = classified.batch, classified.names
        changed = np.bincount(batch.rows, minlength=len(batch.os_pages))
        self.add_pages(Cause.RESTORED, Label("equal", ""), int((changed == 0).sum()))
        if not len(batch.rows):
            return
        weights = OS_PAGE_BYTES / changed[batch.rows]
        by_cause = _shares(batch.rows, classified.causes.astype(np.int64), weights)
        for code, share in by_cause.items():
            cause = Cause(code)
            self.causes[cause] = self.causes.get(cause, Share()) + share
        pairs = classified.labels * _CAUSES + classified.causes
        for pair, share in _shares(batch.rows, pairs, weights).items():
            key = Cause(pair % _CAUSES), labels[pair // _CAUSES]
            self.fields[key] = self.fields.get(key, Share()) + share
        self._add_types(classified, weights)

    def _add_types(self, classified: Classified, weights: Array) -> None:
        labels = classified.names
        names = sorted({label.type for label in labels})
        number = {name: i for i, name in enumerate(names)}
        type_of = np.array([number[label.type] for label in labels], dtype=np.int64)
        shares = _shares(classified.batch.rows, type_of[classified.labels], weights)
        for i, share in shares.items():
            self.types[names[i]] = self.types.get(names[i], Share()) + share

    def ranked_causes(self) -> tuple[tuple[Cause, Share], ...]:
        """Causes, most bytes first."""
        return tuple(sorted(self.causes.items(), key=lambda item: -item[1].bytes))

    def ranked_fields(self) -> tuple[tuple[Cause, Label, Share], ...]:
        """Fields and their causes, most bytes first."""
        rows = ((cause, label, share) for (cause, label), share in self.fields.items())
        return tuple(sorted(rows, key=lambda row: -row[2].bytes))

    def ranked_types(self) -> tuple[tuple[str, Share], ...]:
        """Types, most pages first."""
        return tuple(sorted(self.types.items(), key=lambda item: -item[1].os_pages))


def _shares(rows: Array, values: Array, weights: Array) -> dict[int, Share]:
    """A share for each distinct value (small numbers); `rows` says in which page a word is."""
    distinct, which = of_codes(values)
    width = len(distinct)
    words = np.bincount(which, minlength=width)
    charged = np.bincount(which, weights=weights, minlength=width)
    occurs = np.zeros((int(rows[-1]) + 1, width), dtype=bool)
    occurs[rows, which] = True
    pages = occurs.sum(axis=0)
    alone = occurs[occurs.sum(axis=1) == 1].sum(axis=0)
    return {
        int(value): Share(float(charged[i]), int(pages[i]), int(alone[i]), int(words[i]))
        for i, value in enumerate(distinct)
    }
