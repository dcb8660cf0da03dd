"""Folders in the user's cache, for what outlives a process. They may be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path

from pasture.errors import UsageError
from pasture.trust import private_files

HINT = "set XDG_CACHE_HOME to a folder of your own with room in it"


def folder(name: str) -> Path:
    """pasture's own folder of this name, made. UsageError: another user has a say in it, say."""
    base = _base()
    path = base / "pasture" / name
    try:
        # Each of them: who may write to one can put a folder of his own in the next one's place.
        for each in (base, path.parent, path):
            private_files.make_folder(each)
    except OSError as error:
        raise refused(path, error) from None
    return path


def refused(path: Path, error: OSError) -> UsageError:
    """The error for what cannot be kept."""
    return UsageError(f"cannot keep anything in {path}: {error.strerror or error}", hint=HINT)


def _base() -> Path:
    """The cache folder by the XDG Base Directory Specification, which ignores a relative path."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageError("this user has no home folder", hint=HINT) from None
