"""Writes reports, whole or not at all, readable by this user alone.

`pasture.trust.private_files` does it; this module turns its errors into errors of a command line.
The file `-` is standard output.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.trust import private_files
from pasture.trust.untrusted_text import to_json

_OWN_FOLDER = "choose a file in a folder that belongs to you"
STANDARD_OUTPUT = Path("-")


def write_atomically(path: Path, text: str) -> None:
    """Write a text file in one step.

    Raises:
        UsageError: the file cannot be written safely; an earlier one is unchanged.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with _as_usage(path):
        private_files.write(path, text)


def write_json(path: Path, document: Any) -> None:
    """Write plain values with any text as a JSON report; as `write_atomically`."""
    write_atomically(path, to_json(document))


def require_writable(path: Path) -> None:
    """Check that a report could be written, before a long measurement.

    Raises:
        UsageError: the directory is missing or not safe, permission is missing, or the path is a
            directory.
    """
    if path == STANDARD_OUTPUT:
        return
    with _as_usage(path):
        private_files.require_writable(path)


@contextmanager
def _as_usage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL in it
        why = getattr(error, "strerror", None) or error
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room there, or choose another folder" if is_full else _OWN_FOLDER
        raise UsageError(f"cannot write {path}: {why}", hint=hint) from None
