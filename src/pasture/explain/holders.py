"""What holds the objects that a worker's writes fell on: strings of a numpy array, rows of a list.

A sample of the objects of each kind is followed up to the first container that holds a good part
of the kind. So the numbers of pages are estimates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from pasture.explain.explanation import Holder
from pasture.explain.objects import Objects
from pasture.explain.owners import Owners, type_name
from pasture.explain.snapshot import Kind, Snapshot
from pasture.explain.touched import Example, KindAndType, TouchedObjects

Key = TypeVar("Key", bound=Hashable)

_MAX_KINDS = 8
_MAX_OF_A_KIND = 3
_MIN_PART = 1 / 8
_MIN_OS_PAGES = 25


def most_holding(
    snapshot: Snapshot | None, objects: Objects | None, touched: TouchedObjects
) -> tuple[Holder, ...]:
    """Of the kinds with the most private pages the containers that hold most of them."""
    if snapshot is None or objects is None:
        return ()
    names = Owners(snapshot, objects)
    found: list[Holder] = []
    for samples, restored in ((touched.samples, False), (touched.restored, True)):
        sizes = {group: sum(one.os_pages for one in some) for group, some in samples.items()}
        kinds = [group for group, _ in _largest(sizes)]
        for group in [g for g in kinds if not _is_code(g, touched)][:_MAX_KINDS]:
            found += _holders(names, type_name(objects, *group), samples[group], restored=restored)
    return tuple(sorted(found, key=lambda holder: -holder.os_pages))


def _is_code(group: KindAndType, touched: TouchedObjects) -> bool:
    return group[0] == Kind.OBJECT and group[1] in touched.code_types


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
