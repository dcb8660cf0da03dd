"""The JSON document of `pasture explain`, schema 1. Sizes are bytes, times seconds.

Stable: keys are added, never renamed or given another meaning.
"""

from __future__ import annotations

import json
from typing import Any

from pasture.observe.causes import Cause
from pasture.observe.explain import Explanation, Owner
from pasture.observe.tally import Share
from pasture.report.advice import advice

SCHEMA = 1


def to_json(found: Explanation) -> str:
    """The document as text, one trailing newline."""
    return json.dumps(as_document(found), indent=1) + "\n"


def as_document(found: Explanation) -> dict[str, Any]:
    """The document as plain values that JSON knows."""
    return {
        "schema": SCHEMA,
        "worker": found.worker_pid,
        "parent": found.parent_pid,
        "private_bytes": found.private_bytes,
        "explained_bytes": round(found.explained_bytes),
        "os_pages": found.os_pages,
        "seconds": round(found.seconds, 3),
        "stopped_s": round(found.stopped_s, 6),
        "census": found.census,
        "policy": found.policy,
        "missing": list(found.missing),
        "causes": {cause.label: _share(found.cause(cause)) for cause in Cause},
        "fields": [
            {"cause": cause.label, "type": label.type, "field": label.field, **_share(share)}
            for cause, label, share in found.fields
        ],
        "types": [{"type": name, **_share(share)} for name, share in found.types],
        "owners": [_owner(owner) for owner in found.owners],
        "codes": [_owner(owner) for owner in found.codes],
        "advice": list(advice(found)),
    }


def _share(share: Share) -> dict[str, int]:
    return {
        "bytes": round(share.bytes),
        "os_pages": share.os_pages,
        "only_os_pages": share.only_os_pages,
        "words": share.words,
    }


def _owner(owner: Owner) -> dict[str, Any]:
    return {
        "type": owner.type,
        "path": owner.path,
        "file": owner.file,
        "os_pages": owner.os_pages,
        "words": owner.words,
    }
