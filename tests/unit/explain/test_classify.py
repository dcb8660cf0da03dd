"""Causes of words by where they lie, in two address spaces made by hand."""

import struct
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.proc.maps import Mapping
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.classify import Classifier
from pasture_tools.explain.difference import Batch
from pasture_tools.explain.extents import NOTHING
from pasture_tools.explain.fields import Label, Meaning
from pasture_tools.explain.regions import Regions
from pasture_tools.explain.words import Classified, Labels, Words

pytestmark = pytest.mark.interpreter

HEAP, PYTHON, LIBRARY, STACK = 0x1000000, 0x4000000, 0x5000000, 0x7FFC00000000
MAPPINGS = (
    Mapping(HEAP, HEAP + 4096, "rw-p", "[heap]"),
    Mapping(PYTHON, PYTHON + 4096, "rw-p", "/usr/bin/python3.14"),
    Mapping(LIBRARY, LIBRARY + 4096, "rw-p", "/usr/lib/libssl.so.3"),
    Mapping(STACK, STACK + 4096, "rw-p", "[stack]"),
)
FREE_BEFORE = 0  # flag of a chunk: the one before it is not in use


class Space:
    """A process whose heap consists of chunks; each is given by its size and flags."""

    def __init__(self, *sizes: int) -> None:
        self.mappings = MAPPINGS
        heap, at = bytearray(4096), 0
        for size in sizes:
            struct.pack_into("<Q", heap, at + 8, size)
            at += size & ~7
        self._heap = heap

    def os_pages_there(self, pages: Any) -> Any:
        return np.frombuffer(self._heap, dtype=np.uint64).reshape(len(pages), -1)

    os_pages = os_pages_there


# In use, in use, free, in use (whose header says that the one before it is free), top.
PARENT = Space(0x101, 0x101, 0x101, 0x100 | FREE_BEFORE, 0xC01)
UNCHANGED = PARENT


def classified(
    worker: Space, addresses: Iterable[int], *, has_snapshot: bool = False
) -> Classified:
    parent: Any = PARENT
    changed: Any = worker
    classifier = Classifier(parent, changed, None, same_version=False, has_snapshot=has_snapshot)
    words = np.array(sorted(addresses), dtype=np.uint64)
    pages = np.unique(words // np.uint64(4096) * np.uint64(4096))
    return classifier.classify(
        Batch(pages, words, np.searchsorted(pages, words, side="right") - 1), NOTHING
    )


def causes(found: Classified) -> list[Cause]:
    return [Cause(code) for code in found.causes.tolist()]


def test_words_of_files_and_stacks_are_known_by_their_mappings() -> None:
    found = classified(UNCHANGED, (PYTHON + 8, LIBRARY + 8, STACK + 8))
    assert causes(found) == [Cause.INTERPRETER_DATA, Cause.LIBRARY_DATA, Cause.STACK]
    names = [str(found.names[label]) for label in found.labels.tolist()]
    assert names == ["interpreter", "libssl.so.3", "stack"]


def test_words_of_free_chunks_are_links_and_those_of_the_top_free_memory() -> None:
    found = classified(UNCHANGED, (HEAP + 0x220, HEAP + 0x900))
    assert causes(found) == [Cause.FREE_LIST, Cause.FREE_MEMORY]


def test_a_chunk_that_the_worker_alone_uses_is_a_hole_and_one_it_freed_is_freed() -> None:
    # The third is in use, and the second is not.
    worker = Space(0x101, 0x101, 0x100 | FREE_BEFORE, 0x101, 0xC01)
    found = classified(worker, (HEAP + 0x120, HEAP + 0x220))
    assert causes(found) == [Cause.FREED, Cause.HOLE]


def test_the_size_of_a_chunk_is_a_header() -> None:
    assert causes(classified(UNCHANGED, (HEAP + 0x108,))) == [Cause.CHUNK_HEADER]


@pytest.mark.parametrize(
    ("has_snapshot", "cause"), [(False, Cause.UNKNOWN), (True, Cause.C_ALLOCATION)]
)
def test_memory_in_use_is_of_c_code_only_if_a_snapshot_would_know_better(
    has_snapshot: bool, cause: Cause
) -> None:
    assert causes(classified(UNCHANGED, (HEAP + 0x20,), has_snapshot=has_snapshot)) == [cause]


def words(count: int, labels: Labels) -> Words:
    addresses = np.arange(count, dtype=np.uint64) * np.uint64(8) + np.uint64(STACK)
    batch = Batch(np.array([STACK], dtype=np.uint64), addresses, np.zeros(count, dtype=np.int64))
    return Words(batch, Regions(MAPPINGS), NOTHING, labels)


def test_a_word_that_is_decided_stays_so_unless_it_is_decided_again() -> None:
    found, labels = words(3, Labels()), (Label("a", ""), Label("b", ""))
    found.set(np.array([True, False, False]), Cause.HASH, labels[0])
    found.set(np.array([0, 1]), Cause.STACK, labels[1])
    assert found.open.tolist() == [False, False, True]
    found.decide(np.array([0]), Cause.HOLE, labels[1])
    found.mean(np.array([2]), np.array([0]), [Meaning(Cause.FREED, labels[0])])
    result = found.classified(frozenset((7,)))
    assert causes(result) == [Cause.HOLE, Cause.STACK, Cause.FREED]
    assert [result.names[i] for i in result.labels.tolist()] == [labels[1], labels[1], labels[0]]
    assert result.code_types == {7}


def test_labels_keep_their_numbers_from_batch_to_batch() -> None:
    labels = Labels()
    first, second = words(1, labels), words(1, labels)
    first.set(np.array([0]), Cause.HASH, Label("a", ""))
    earlier = first.classified(frozenset())
    second.set(np.array([0]), Cause.HASH, Label("b", ""))
    later = second.classified(frozenset())
    assert earlier.names == later.names[:1] and later.labels.tolist() == [1]
