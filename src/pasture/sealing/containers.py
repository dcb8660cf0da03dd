"""Types whose objects hold items that the collector does not see, and how to list the items.

Owns the list of such types: numpy's arrays, if the application has imported numpy, and types that
it registers. The seal and the snapshot ask them for their items.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pasture.errors import UsageError
from pasture.interpreter import native

Iterate = Callable[[Any], Iterable[object]]

_registered: dict[type, Iterate] = {}


def register_container(container: type, iterate: Iterate) -> None:
    """Register what objects of a type hold, where the type does not report it to the collector.

    An extension type without `tp_traverse` hides its items: each worker would copy their pages.
    numpy's arrays of objects are known.

    Args:
        container: the type; subclasses count, too.
        iterate: takes such an object and yields the very objects that it holds. Called in each
            seal, with the collector off. An `Exception` that it raises is reported, and the
            remaining items stay unsealed; another error ends the seal.

    Raises:
        UsageError: `container` is not a type, or `iterate` cannot be called.
    """
    _check(container, iterate)
    _registered[container] = iterate


def _check(container: object, iterate: object) -> None:
    if not isinstance(container, type) or not callable(iterate):
        raise UsageError(
            f"register_container({container!r}, {iterate!r}): needs a type and a function",
            hint="register_container(Matrix, lambda matrix: matrix.cells())",
        )


def hand_to_extension() -> None:
    """Hand all types to the extension, before a walk over the heap."""
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    known = {}
    if isinstance(array, type):
        known = {array: _held_by_array}
        whole = sys.modules["numpy"].empty(1)
        native().register_owner(array, whole[:], whole)
    for container, iterate in {**known, **_registered}.items():
        native().register_container(container, iterate)


def _held_by_array(array: Any) -> Iterator[object]:
    numpy = sys.modules["numpy"]
    plain = numpy.ndarray.view(array, numpy.ndarray)  # a subclass may index in its own way
    yield plain.dtype
    yield numpy.ndarray.base.__get__(array)
    if _has_objects(plain.dtype):
        yield from _objects_in(plain)


def _objects_in(array: Any) -> Iterator[object]:
    """The elements of an array; in a structured one, those of its fields that are objects."""
    if array.dtype.names is None:
        yield from _without_repetition(array).flat
        return
    for name in array.dtype.names:
        field = array[name]
        if _has_objects(field.dtype):
            yield from _objects_in(field)


def _has_objects(dtype: Any) -> bool:
    """Whether elements are references: `hasobject` is set for strings of any length, too."""
    return bool(dtype.kind == "O" or (dtype.hasobject and dtype.names is not None))


def _without_repetition(array: Any) -> Any:
    """A view of the same elements, without the repetitions of broadcasts and sliding windows."""
    numpy = sys.modules["numpy"]
    backwards = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)
    array = array[(*backwards, ...)]
    axes = merge_axes(zip(array.strides, array.shape, strict=True))
    return numpy.lib.stride_tricks.as_strided(
        array, [length for _, length in axes], [stride for stride, _ in axes]
    )


def merge_axes(axes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Axes that reach the same offsets, with fewer repetitions; ascending.

    Args:
        axes: stride in bytes, 0 or more, and length of each; a length of 0 gives no offsets.
    """
    merged: list[tuple[int, int]] = []
    for stride, length in sorted(axes):
        if length == 0:
            return [(stride, 0)]
        if stride == 0 or length == 1:
            continue  # one offset
        step, count = merged[-1] if merged else (stride, 1)
        if stride % step == 0 and stride // step <= count:
            merged[-1:] = [(step, count + stride // step * (length - 1))]
        else:
            merged.append((stride, length))
    return merged
