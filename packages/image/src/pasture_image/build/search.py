"""A folder in which modules are looked for: which of its entries are, or would hide, a loaded one.

Nothing else in the folder counts: a log or a database next to `app.py` may come and go. The mirror
of src/stub/made_of.c.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.machinery import all_suffixes

from pasture_image.inside.record import MISSING, times_of

_INITS = tuple(f"__init__{suffix}" for suffix in all_suffixes())


def entries(path: str, names: Collection[str]) -> set[str]:
    """Entries that count; `name/` for a folder.

    Args:
        names: of modules; `name/` where a folder is enough; `*END` for all that end so.
    """
    ends = tuple(name[1:] for name in names if name.startswith("*"))
    try:
        with os.scandir(path) as listed:
            return {counted for entry in listed if (counted := _counted(entry, names, ends))}
    except OSError:
        return set()


def _counted(entry: os.DirEntry[str], names: Collection[str], ends: tuple[str, ...]) -> str:
    """The entry as it is compared; empty if it does not count."""
    name, dot, suffix = entry.name.partition(".")
    if dot and entry.name.endswith(ends):
        return entry.name
    if dot:
        is_importable = suffix in ("py", "pyc", "so") or suffix.endswith(".so")
        return entry.name if is_importable and name in names else ""
    is_open = f"{name}/" in names
    if (is_open or name in names) and entry.is_dir() and (is_open or _is_package(entry.path)):
        return f"{name}/"
    return ""


def _is_package(folder: str) -> bool:
    return any(times_of(f"{folder}/{name}") != MISSING for name in _INITS)
