"""The heap snapshot: the objects of this process and their addresses, for `pasture explain`.

Owns the file's head and its path; the extension writes the records. A file appears only when it is
complete, and only this user and root can read it: it has every address of the heap.
`pasture_tools.explain.snapshot` reads it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pasture.interpreter import native
from pasture.sealing import containers
from pasture.trust import private_files

VARIABLE = "PASTURE_SNAPSHOT"
"""Environment variable with the name of the file; `{pid}` in it stands for the writer's."""

MAGIC = b"pasture snapshot 1\n"


def path_for(pid: int, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The path of the snapshot of a process with that environment; None if it writes none."""
    name = environ.get(VARIABLE)
    return Path(name.replace("{pid}", str(pid))) if name else None


def write(path: Path, policy: str) -> int:
    """Write the snapshot of this process; returns the number of records.

    To be called in the process that forks, last thing before the fork, with no other
    Python thread running. Allocates nothing that outlasts the call except a few objects.

    Raises:
        OSError, MemoryError: no file was written; an earlier one is unchanged.
    """
    containers.hand_to_extension()
    with private_files.replacing(path) as file:
        file.write(MAGIC + _head(policy) + b"\n")
        records: int = native().write_snapshot(file.fileno())
    return records


def _head(policy: str) -> bytes:
    """The line before the records. Its objects are freed before the records are written."""
    head = {
        "pid": os.getpid(),
        "policy": policy,
        "hexversion": sys.hexversion,
        "fields": native().field_offsets(),
    }
    return json.dumps(head).encode()
