"""Files that are either complete or untouched.

A report written over an earlier one replaces it in one step: an interrupted or failed
write leaves the earlier one as it was.
"""

from __future__ import annotations

import os
from pathlib import Path

from pasture.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Write a text file by way of a temporary one beside it.

    Raises:
        UsageError: the file cannot be written; an earlier one is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise _not_writable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Check that a report could be written, before an hour is spent on measuring it.

    Raises:
        UsageError: no such directory, no permission, or the path is a directory.
    """
    probe = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        probe.touch()
    except OSError as error:
        raise _not_writable(path, error) from None
    finally:
        probe.unlink(missing_ok=True)


def _not_writable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {error}", hint="choose a file in a directory you own")
