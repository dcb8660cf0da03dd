"""The JSON document of `pasture explain`, schema 1. Sizes are bytes, times seconds.

Stable: keys are added, never renamed or given another meaning.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pasture.explain.advice import advice
from pasture.explain.causes import Cause
from pasture.explain.explanation import Explanation, Holder, Owner
from pasture.explain.fields import Label
from pasture.explain.tally import Share
from pasture.explain.writers import Recording, Writer

SCHEMA = 1


def as_document(found: Explanation) -> dict[str, Any]:
    """The document as plain values that JSON knows."""
    return {
        "schema": SCHEMA,
        "worker": found.worker_pid,
        "parent": found.parent_pid,
        "private_bytes": found.private_bytes,
        "explained_bytes": sum(round(share.bytes) for _, share in found.causes),
        "os_pages": found.os_pages,
        "seconds": round(found.seconds, 3),
        "stopped_s": 0.0,
        "census": found.census,
        "policy": found.policy,
        "python": None if found.python is None else list(found.python),
        "requests": found.requests,
        "is_asgi": found.is_asgi,
        "warms_up": found.warms_up,
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


def from_json(text: str) -> Explanation:
    """An explanation out of its document.

    Raises:
        ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError: the
            text is no such document, or of another schema.
    """
    row = json.loads(text)
    if row["schema"] != SCHEMA:
        raise ValueError(f"schema {row['schema']} in place of {SCHEMA}")
    named = {cause.label: cause for cause in Cause}
    causes = [(named[name], _read_share(share)) for name, share in row["causes"].items()]
    recording = row["recording"]
    return Explanation(
        worker_pid=int(row["worker"]),
        parent_pid=int(row["parent"]),
        private_bytes=int(row["private_bytes"]),
        os_pages=int(row["os_pages"]),
        seconds=float(row["seconds"]),
        census=None if row["census"] is None else str(row["census"]),
        policy=None if row["policy"] is None else str(row["policy"]),
        missing=tuple(map(str, row["missing"])),
        causes=tuple(sorted((c for c in causes if c[1].os_pages), key=lambda item: -item[1].bytes)),
        fields=tuple((named[f["cause"]], _read_label(f), _read_share(f)) for f in row["fields"]),
        types=tuple((str(t["type"]), _read_share(t)) for t in row["types"]),
        owners=tuple(map(_read_owner, row["owners"])),
        codes=tuple(map(_read_owner, row["codes"])),
        recording=None if recording is None else _read_recording(recording, named),
        # Keys that earlier versions did not write.
        python=None if row.get("python") is None else _read_version(row["python"]),
        requests=None if row.get("requests") is None else int(row["requests"]),
        is_asgi=bool(row.get("is_asgi", False)),
        warms_up=bool(row.get("warms_up", True)),
        holders=tuple(map(_read_holder, row.get("holders", ()))),
    )


def _read_version(row: list[Any]) -> tuple[int, int]:
    major, minor = row
    return int(major), int(minor)


def _read_holder(row: dict[str, Any]) -> Holder:
    kind, container, path = (str(row[name]) for name in ("type", "container", "path"))
    return Holder(kind, container, path, int(row["os_pages"]), bool(row["restored"]))


def _read_share(row: dict[str, Any]) -> Share:
    numbers = (int(row[name]) for name in ("os_pages", "only_os_pages", "words"))
    return Share(float(row["bytes"]), *numbers)


def _read_label(row: dict[str, Any]) -> Label:
    return Label(str(row["type"]), str(row["field"]))


def _read_owner(row: dict[str, Any]) -> Owner:
    kind, path, file = (str(row[name]) for name in ("type", "path", "file"))
    return Owner(kind, path, file, int(row["os_pages"]), int(row["words"]))


def _read_recording(row: dict[str, Any], named: dict[str, Cause]) -> Recording:
    writers = tuple(
        Writer(
            str(w["function"]),
            tuple(map(str, w["callers"])),
            named[w["cause"]],
            _read_label(w),
            int(w["faults"]),
        )
        for w in row["writers"]
    )
    faults, lost, pids = int(row["faults"]), int(row["lost"]), tuple(map(int, row["workers"]))
    return Recording(float(row["seconds"]), faults, lost, pids, writers)


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
