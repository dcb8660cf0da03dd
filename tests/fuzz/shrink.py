"""Shortens a failing list of operations by bisection, as long as it goes on to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from case import Operation

Fails = Callable[[tuple[Operation, ...]], bool]


def shrink(operations: tuple[Operation, ...], fails: Fails) -> tuple[Operation, ...]:
    """The shortest list that was found. `fails` decides, and may give up by saying no.

    First whole operations are left out, half of the list at first, one at the end, then those
    of children.
    """
    shorter = _leave_out(operations, fails)
    for index, operation in enumerate(shorter):
        if operation.nested:
            shorter = _shrink_nested(shorter, index, fails)
    return shorter


def _leave_out(operations: tuple[Operation, ...], fails: Fails) -> tuple[Operation, ...]:
    size = max(1, len(operations) // 2)
    while True:
        start = 0
        while start < len(operations):
            rest = operations[:start] + operations[start + size :]
            if fails(rest):
                operations = rest
            else:
                start += size
        if size == 1:
            return operations
        size = max(1, size // 2)


def _shrink_nested(
    operations: tuple[Operation, ...], index: int, fails: Fails
) -> tuple[Operation, ...]:
    def with_nested(nested: tuple[Operation, ...]) -> tuple[Operation, ...]:
        changed = replace(operations[index], nested=nested)
        return (*operations[:index], changed, *operations[index + 1 :])

    nested = shrink(operations[index].nested, lambda fewer: fails(with_nested(fewer)))
    return with_nested(nested)
