"""Remedies for the private memory of a worker, as far as its figures support them.

Pure functions of an `Explanation`. A remedy is named with the bytes of the causes that it
removes, only if they are worth the trouble, and only if it can help: no step that the parent's
interpreter lacks, no warm-up for a worker that has served nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pasture.sealing.policy import POLICIES
from pasture.sealing.steps import HEAP_STEPS
from pasture_tools.display.units import megabytes, percent
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Explanation
from pasture_tools.explain.new_memory import FREE, FREE_CHUNKS

_MIN_BYTES = 300_000
_MIN_FRACTION = 0.02
_MAX_TYPES = 3
_MIN_PART = 0.05
_PYTHON = "py::"
"""Begins the name of a Python function of an interpreter that runs with -X perf."""


_FILLS_AT_USE = frozenset((Cause.DICT_KEYS, Cause.DICT_VALUES, Cause.TYPE_VERSION, Cause.HASH))
_SET_BEFORE = {"precompute-types": Cause.TYPE_VERSION}
"""Causes that a step removes altogether: later writes there follow an invalidation."""

_CODE = frozenset((Cause.CODE_COUNTER, Cause.CODE_CACHE))
_NO_WARM_UP = (
    "there are no requests to warm up with: at import, call the functions that jobs call, with "
    "dummy data"
)
_IN_IMAGE = "rebuild the image with --warm or --rehearse, so that this work is done at build time"
_ITS_OWN = "load it at import, before the fork"


@dataclass(frozen=True, slots=True)
class _Remedy:
    """A remedy, unless the parent took a policy with that step already."""

    step: str  # step of a policy that removes the causes
    causes: frozenset[Cause]
    what: str  # what the causes are, after their bytes
    help: str  # what to do, where the parent's interpreter has the step


_REMEDIES = (
    _Remedy(
        "immortalize",
        frozenset((Cause.REFERENCE_COUNT,)),
        "by reference counts",
        "the policy seal makes what the parent holds immortal, and reading it then writes nothing",
    ),
    _Remedy(
        "immortalize",
        frozenset((Cause.RESTORED,)),
        "written and restored, mostly by references that were taken and dropped",
        "the policy seal makes what the parent holds immortal, and reading it then writes nothing",
    ),
    _Remedy(
        "freeze",
        frozenset((Cause.GC_HEADER,)),
        "by GC headers",
        "gc.freeze() before the fork (policies freeze, warm-freeze, seal) keeps collections away "
        "from the parent's objects",
    ),
    _Remedy(
        "plug-pymalloc",
        frozenset((Cause.HOLE, Cause.POOL_HEADER, Cause.FREE_LIST, Cause.CHUNK_HEADER)),
        "in holes between shared objects",
        "the policy seal plugs them before the fork",
    ),
    _Remedy(
        "gather-code",
        _CODE,
        "by running code (counters and caches in it)",
        "the policy seal gathers the code that has run before the fork on pages of its own",
    ),
    _Remedy(
        "immortalize",
        frozenset((Cause.FREED,)),
        "by objects of the parent that the worker freed",
        "the policy seal makes them immortal, and they are not freed",
    ),
)


def advice(found: Explanation) -> tuple[str, ...]:
    """Sentences without a full stop, dangers first, hazards last."""
    lines = [(size, line) for remedy in _REMEDIES for size, line in _remedy(remedy, found)]
    lines += _warm_up(found)
    lines += _code(found)
    lines.sort(key=lambda line: -line[0])
    remedies = (sentence for _, sentence in lines)
    hazards = (f"hazard: {hazard}" for hazard in found.hazards)
    grows = _new_memory(found) if found.growth is None else (_leak(found),)
    libraries = (
        f"{megabytes(share.bytes)} is data that {label.type} writes"
        for cause, label, share in found.fields
        if cause is Cause.LIBRARY_DATA and share.bytes >= _MIN_BYTES / 2
    )
    return (*found.dangers, *grows, *remedies, *libraries, *hazards)


def _remedy(remedy: _Remedy, found: Explanation) -> Iterable[tuple[float, str]]:
    size = _bytes(found, remedy.causes)
    if not _is_worth(size, found):
        return
    lack = HEAP_STEPS[remedy.step].lack
    policy = POLICIES.get(found.policy or "")
    if lack is not None and found.python is not None and found.python < lack.first:
        shown, own = (f"{version[0]}.{version[1]}" for version in (lack.first, found.python))
        help_ = f"Python {own} has no remedy, {shown} and later have one in the policy seal"
    elif policy is not None and remedy.step in policy.heap:
        return
    else:
        help_ = remedy.help
    yield size, f"{megabytes(size)} {remedy.what}: {help_}"


def _code(found: Explanation) -> Iterable[tuple[float, str]]:
    """Counters and caches of code, under a policy that gathers what has run."""
    policy = POLICIES.get(found.policy or "")
    size = _bytes(found, _CODE)
    if policy is None or "gather-code" not in policy.heap or not _is_worth(size, found):
        return
    gathers = "a warm-up with more of their requests, each several times, gathers more"
    earlier = gathers if found.warms_up else _without_requests(found)
    yield (
        size,
        f"{megabytes(size)} by running code (counters and caches in it): code that has run before "
        f"the fork was gathered; the rest runs first in workers: {earlier}",
    )


def _warm_up(found: Explanation) -> Iterable[tuple[float, str]]:
    """Tables that fill at first use, of a worker that was used."""
    policy = POLICIES.get(found.policy or "")
    filled = {c for step, c in _SET_BEFORE.items() if policy is not None and step in policy.heap}
    size = _bytes(found, _FILLS_AT_USE - filled)
    if found.requests != 0 and _is_worth(size, found):
        fills = (
            "requests in the warm-up, each several times, fill most of them before the fork"
            if found.warms_up
            else _without_requests(found)
        )
        yield size, f"{megabytes(size)} by tables and caches that fill at first uses: {fills}"


def _leak(found: Explanation) -> str:
    """The types of what grows, and who holds it or made it, as far as that is known."""
    size = found.cause(Cause.NEW_MEMORY).bytes
    new = [
        (label.type, share.bytes / size)
        for cause, label, share in found.fields
        if cause is Cause.NEW_MEMORY and label not in (FREE, FREE_CHUNKS)
    ]
    types = [f"{percent(part)} {name}" for name, part in new[:_MAX_TYPES] if part >= _MIN_PART]
    words = [f"the worker {found.growth}"]
    if types:
        words.append(f"of {megabytes(size)} of new memory {', '.join(types)}")
    if found.grown:
        added = [f"{one.items:,} in {one.path} ({one.type})" for one in found.grown]
        words.append(f"items that only the worker has: {', '.join(added)}")
    made = [
        name.removeprefix(_PYTHON)
        for writer in (found.recording.writers if found.recording else ())
        for name in (writer.function, *writer.callers)
        if writer.cause is Cause.NEW_MEMORY and name.startswith(_PYTHON)
    ]
    if made:
        words.append(f"most of it is made in {made[0]}")
    if not found.grown and not made:
        words.append(
            "start the server with PASTURE_SNAPSHOT to see what holds these objects; --record with "
            "-X perf shows what creates them"
        )
    return "; ".join(words)


def _new_memory(found: Explanation) -> Iterable[str]:
    size = found.cause(Cause.NEW_MEMORY).bytes
    if not _is_worth(size, found) or size <= found.private_bytes / 4:
        return
    free = sum(
        share.bytes
        for cause, label, share in found.fields
        if cause is Cause.NEW_MEMORY and label in (FREE, FREE_CHUNKS)
    )
    share = percent(size / found.private_bytes)
    origin = "parent" if found.image is None else "image"
    what = f"{megabytes(size)} ({share}) is memory that the {origin} never had"
    if _is_worth(size - free, found):
        yield (
            f"{what}: {megabytes(free)} of it is free at the moment, {megabytes(size - free)} is "
            f"what {_who_builds(found)}"
        )
    else:
        yield f"{what}, and nearly all of it is free: requests needed it, and will again"


def _who_builds(found: Explanation) -> str:
    """Names the code that made the objects in new memory, and what would make them earlier."""
    if found.image is not None:
        return f"the program built: {_IN_IMAGE}"
    if found.requests == 0:
        where = "its lifespan" if found.is_asgi else "a hook after the fork"
        return f"the worker built at its start, as in {where}: {_ITS_OWN}"
    if not found.warms_up:
        built = "jobs built, garbage that waits for a collection included"
        return f"{built}; what is built once: {_ITS_OWN}"
    warm_up = "a warm-up helps with what is built once, not with what every request allocates"
    if found.is_asgi:
        return (
            "its lifespan and requests built: what a lifespan builds, each worker builds again, so "
            f"{_ITS_OWN}; {warm_up}, and some of it may be garbage that waits for a collection"
        )
    return f"requests built, garbage that waits for a collection included: {warm_up}"


def _without_requests(found: Explanation) -> str:
    return _NO_WARM_UP if found.image is None else _IN_IMAGE


def _bytes(found: Explanation, causes: frozenset[Cause]) -> float:
    return sum(share.bytes for cause, share in found.causes if cause in causes)


def _is_worth(size: float, found: Explanation) -> bool:
    return size >= max(_MIN_BYTES, _MIN_FRACTION * found.private_bytes)
