"""What to do about the private memory of a worker: only what its figures support.

Pure functions of an `Explanation`. A remedy is named with the bytes of the causes that it
removes, and only if they are worth the trouble.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pasture.display.units import megabytes, percent
from pasture.explain.causes import Cause
from pasture.explain.explanation import Explanation
from pasture.explain.new_memory import FREE, FREE_CHUNKS
from pasture.sealing.policy import POLICIES

_LEAST_BYTES = 300_000
_LEAST_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class _Remedy:
    """A remedy, unless the parent took a policy with that step already.

    Attributes:
        step: step of a policy that removes the causes; "" if no policy has one.
    """

    step: str
    causes: frozenset[Cause]
    sentence: str


_REMEDIES = (
    _Remedy(
        "immortalize",
        frozenset((Cause.REFERENCE_COUNT,)),
        "{size} by reference counts: the policy seal makes what the parent holds immortal "
        "(CPython 3.12 and later), and reading it then writes nothing",
    ),
    _Remedy(
        "freeze",
        frozenset((Cause.GC_HEADER,)),
        "{size} by GC headers: gc.freeze() before the fork (policies freeze, warm-freeze, seal) "
        "keeps collections away from the parent's objects",
    ),
    _Remedy(
        "plug-pymalloc",
        frozenset((Cause.HOLE, Cause.POOL_HEADER, Cause.FREE_LIST, Cause.CHUNK_HEADER)),
        "{size} in holes between shared objects: the policy seal plugs them before the fork",
    ),
    _Remedy(
        "gather-code",
        frozenset((Cause.CODE_COUNTER, Cause.CODE_CACHE)),
        "{size} by running code: warm up with the requests that workers get; the policy seal "
        "then gathers the code that ran on pages of its own",
    ),
    _Remedy(
        "warm-up",
        frozenset((Cause.DICT_KEYS, Cause.DICT_VALUES, Cause.TYPE_VERSION, Cause.HASH)),
        "{size} by tables and caches that fill at first use: more requests in the warm-up fill "
        "them before the fork",
    ),
    _Remedy(
        "immortalize",
        frozenset((Cause.FREED,)),
        "{size} by objects of the parent that the worker let go of: what is immortal (policy "
        "seal) is not freed",
    ),
)


def advice(found: Explanation) -> tuple[str, ...]:
    """Sentences without a full stop, the most bytes first."""
    policy = POLICIES.get(found.policy or "")
    taken = set(policy.heap) if policy else set()
    lines = [
        (size, remedy.sentence.format(size=megabytes(size)))
        for remedy in _REMEDIES
        if remedy.step not in taken and _is_worth(size := _bytes(found, remedy.causes), found)
    ]
    lines.sort(key=lambda line: -line[0])
    return (*_new_memory(found), *(sentence for _, sentence in lines), *_libraries(found))


def _new_memory(found: Explanation) -> Iterable[str]:
    size = found.cause(Cause.NEW_MEMORY).bytes
    if not _is_worth(size, found) or size <= found.private_bytes / 4:
        return
    free = sum(
        share.bytes
        for cause, label, share in found.fields
        if cause is Cause.NEW_MEMORY and label in (FREE, FREE_CHUNKS)
    )
    yield (
        f"{megabytes(size)} ({percent(size / found.private_bytes)}) is memory that the parent "
        f"never had: {megabytes(free)} of it is free at the moment, the rest is what requests "
        "build and keep; requests in the warm-up build it in the parent, once for all workers"
    )


def _libraries(found: Explanation) -> Iterable[str]:
    for cause, label, share in found.fields:
        if cause is Cause.LIBRARY_DATA and share.bytes >= _LEAST_BYTES / 2:
            yield f"{megabytes(share.bytes)} is data that {label.type} writes"


def _bytes(found: Explanation, causes: frozenset[Cause]) -> float:
    return sum(share.bytes for cause, share in found.causes if cause in causes)


def _is_worth(size: float, found: Explanation) -> bool:
    return size >= max(_LEAST_BYTES, _LEAST_FRACTION * found.private_bytes)
