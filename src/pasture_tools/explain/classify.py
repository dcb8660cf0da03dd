"""The cause of each word that differs between a parent and its worker.

Joins the difference with what lies there. Owns the order in which the sources are asked: a
block that is free in the parent holds no object, whatever an old snapshot says.
"""

from __future__ import annotations

import numpy as np

from pasture.interpreter import Fields
from pasture_tools.explain.allocated import Allocated
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.chunks import find_heaps
from pasture_tools.explain.difference import Batch
from pasture_tools.explain.extents import Extents
from pasture_tools.explain.fields import Label
from pasture_tools.explain.object_words import ObjectWords
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.regions import Region, Regions
from pasture_tools.explain.words import Classified, Labels, Words
from pasture_tools.proc.address_space import AddressSpace


class Classifier:
    """Finds causes for one pair of processes.

    Args:
        fields: offsets of the interpreter; None if they are not known.
        same_version: whether the interpreter's instructions are those of this one.
        has_snapshot: whether memory in use without a record is known to be no object.
    """

    def __init__(
        self,
        parent: AddressSpace,
        worker: AddressSpace,
        fields: Fields | None,
        *,
        same_version: bool,
        has_snapshot: bool,
    ) -> None:
        self.parent, self.worker = parent, worker
        self.fields = fields
        self.objects = Objects(parent, fields) if fields else None
        heaps = [(heap.start, heap.end) for heap in find_heaps(worker)]
        self.regions = Regions(worker.mappings, heaps=heaps)
        self.allocated = Allocated(parent, worker)
        self._same_version, self._has_snapshot = same_version, has_snapshot
        self._labels = Labels()
        self._in_objects = (
            ObjectWords(self.objects, worker, same_version=same_version) if self.objects else None
        )

    def of_worker(self, worker: AddressSpace) -> Classifier:
        """A classifier for another worker of this parent."""
        return Classifier(
            self.parent,
            worker,
            self.fields,
            same_version=self._same_version,
            has_snapshot=self._has_snapshot,
        )

    def classify(self, batch: Batch, extents: Extents) -> Classified:
        """Find the cause of every word of a batch; `extents` has what lies there in the parent."""
        words = Words(batch, self.regions, extents, self._labels)
        words.set(words.regions == Region.STACK, Cause.STACK, Label("stack", ""))
        self.allocated.decide(words)
        if self._in_objects is not None:
            self._in_objects.decide(words)
        self._rest(words)
        return words.classified(self._in_objects.code_types if self._in_objects else frozenset())

    def _rest(self, words: Words) -> None:
        data = words.open & (words.regions == Region.INTERPRETER)
        words.set(data, Cause.INTERPRETER_DATA, Label("interpreter", ""))
        mappings = self.regions.index(words.batch.addresses)
        for i in np.unique(mappings[words.open & (words.regions == Region.LIBRARY)]):
            name = self.regions.name(int(i))
            inside = words.open & (mappings == i)
            words.set(inside, Cause.LIBRARY_DATA, Label(name, ""))
        if self._has_snapshot:
            heap = words.open & (words.block_starts != 0)
            words.set(heap, Cause.C_ALLOCATION, Label("C allocation", "block"))
            mapped = words.open & (words.regions == Region.ANONYMOUS)
            words.set(mapped, Cause.C_ALLOCATION, Label("C allocation", "mapped memory"))
        words.set(words.open, Cause.UNKNOWN, Label("unknown", ""))
