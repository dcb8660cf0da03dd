"""The JSON document of `pasture explain`, schema 1. Sizes are bytes, times seconds.

Stable: keys are added, never renamed or given another meaning.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pasture_tools.explain.advice import advice
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Explanation
from pasture_tools.explain.tally import Share
from pasture_tools.explain.writers import Recording

SCHEMA = 1


def as_document(found: Explanation) -> dict[str, Any]:
    """The document as plain values that JSON knows."""
    return {
        "schema": SCHEMA,
        "worker": found.worker_pid,
        "parent": found.parent_pid,
        "image": found.image,
        "private_bytes": found.private_bytes,
        "explained_bytes": sum(round(share.bytes) for _, share in found.causes),
        "os_pages": found.os_pages,
        "seconds": round(found.seconds, 3),
        "stopped_s": 0.0,
        "snapshot": found.snapshot,
        "policy": found.policy,
        "python": None if found.python is None else list(found.python),
        "requests": found.requests,
        "is_asgi": found.is_asgi,
        "warms_up": found.warms_up,
        "growth": None if found.growth is None else asdict(found.growth),
        "grown": list(map(asdict, found.grown)),
        "dangers": list(found.dangers),
        "hazards": list(found.hazards),
        "missing": list(found.missing),
        "causes": {cause.label: _share(found.cause(cause)) for cause in Cause},
        "fields": [
            {"cause": cause.label, "type": label.type, "field": label.field, **_share(share)}
            for cause, label, share in found.fields
        ],
        "types": [{"type": name, **_share(share)} for name, share in found.types],
        "owners": list(map(asdict, found.owners)),
        "codes": list(map(asdict, found.codes)),
        "holders": list(map(asdict, found.holders)),
        "recording": None if found.recording is None else _recording(found.recording),
        "advice": list(advice(found)),
    }


def _recording(recording: Recording) -> dict[str, Any]:
    return {
        "seconds": recording.seconds,
        "faults": recording.faults,
        "lost": recording.lost,
        "workers": list(recording.pids),
        "writers": [
            {
                "function": writer.function,
                "callers": list(writer.callers),
                "cause": writer.cause.label,
                "type": writer.label.type,
                "field": writer.label.field,
                "faults": writer.faults,
            }
            for writer in recording.writers
        ],
    }


def _share(share: Share) -> dict[str, int]:
    return {**asdict(share), "bytes": round(share.bytes)}
