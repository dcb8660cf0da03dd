"""Explanations made of numbers, for tests that look at no process."""

from typing import Any

from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Explanation, Owner
from pasture_tools.explain.fields import Label
from pasture_tools.explain.tally import Share
from pasture_tools.explain.writers import Recording, Writer

MB = 1_000_000


def share(megabytes: float) -> Share:
    pages = int(megabytes * MB / 4096)
    return Share(megabytes * MB, pages, pages // 2, pages * 3)


def explanation(causes: dict[Cause, float], **changed: Any) -> Explanation:
    """An explanation with these causes, in MB; without anything else unless it is given."""
    ranked = sorted(causes.items(), key=lambda item: -item[1])
    given: dict[str, Any] = {
        "worker_pid": 8,
        "parent_pid": 7,
        "private_bytes": int(sum(causes.values()) * MB),
        "os_pages": 1000,
        "seconds": 0.5,
        "snapshot": None,
        "policy": None,
        "missing": (),
        "causes": tuple((cause, share(size)) for cause, size in ranked),
        "fields": (),
        "types": (),
        "owners": (),
        "codes": (),
    }
    return Explanation(**{**given, **changed})


FULL = explanation(
    {Cause.REFERENCE_COUNT: 20, Cause.NEW_MEMORY: 4},
    snapshot="/tmp/snapshot",
    policy="freeze",
    missing=("something was not known",),
    fields=((Cause.REFERENCE_COUNT, Label("dict", "ob_refcnt"), share(20)),),
    types=(("dict", share(20)),),
    owners=(Owner("dict", "app.settings", "", 12, 30),),
    codes=(Owner("code", "view", "app.py:7", 3, 9),),
    recording=Recording(
        3.0, 50, 2, (8, 9), (Writer("free", ("main",), Cause.HOLE, Label("malloc", "free"), 50),)
    ),
)
