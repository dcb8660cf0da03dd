"""Types of extensions whose objects stay mortal: what is registered, and what a report says."""

import pytest

from pasture.errors import UsageError
from pasture.sealing import memory_types
from pasture.sealing.memory_types import TypeCount


class Node: ...


def test_only_types_with_more_than_a_thousand_objects_are_named_the_largest_first() -> None:
    counted = [(int, 1_001, 28_028), (Node, 1_000, 9_000_000), (dict, 2_000, 128_000)]
    assert memory_types.with_many_objects(counted) == (
        TypeCount("builtins.dict", 2_000, 128_000),
        TypeCount("builtins.int", 1_001, 28_028),
    )


def test_a_note_names_types_with_their_objects_and_the_remedy() -> None:
    note = memory_types.note_of([TypeCount("fastlib.Node", 12_345, 1_234_500)])
    assert "12,345 fastlib.Node (1.2 MB)" in note
    assert "pasture.holds_memory(TYPE)" in note


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(UsageError, match="holds_memory"):
        memory_types.holds_memory(Node())  # type: ignore[arg-type]
