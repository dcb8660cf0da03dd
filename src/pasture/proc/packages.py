"""The installed package of a file that a process has mapped, by the packages' records.

A file at the path of a mapped one may be another user's.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path, PurePath

from pasture.errors import UsageError
from pasture.trust.foreign_files import read_foreign
from pasture.trust.untrusted_text import printable

_MAX_BYTES = 64 << 20
_SITES = ("site-packages", "dist-packages")
STANDARD_LIBRARY = "the standard library"


def package_of(file: str) -> str:
    """Name and version of the package whose record has a file; the file's name without one."""
    info = distribution_of(file)
    if info is not None:
        return name_of(info)
    # A private copy of a library lies next to its package, and the record may lack it.
    return printable(PurePath(file).name)


def package_of_module(module: str) -> str:
    """The package that a module's name begins with; "" for a program's own."""
    top = module.partition(".")[0]
    if top in ("", "__main__"):
        return ""
    return STANDARD_LIBRARY if top in sys.stdlib_module_names else top


def name_of(info: Path) -> str:
    """Name and version, as in `numpy 2.5.5`, from the name of a `.dist-info` folder."""
    return printable(info.name.removesuffix(".dist-info").replace("-", " "))


def distribution_of(file: str) -> Path | None:
    """The `.dist-info` folder of the package whose record has a file, or None."""
    for parent in Path(file).parents:
        if parent.name in _SITES:
            return _recorded(parent).get(str(Path(file).relative_to(parent)))
    return None


def forget() -> None:
    """Forget the packages' records, before a process is sealed."""
    _recorded.cache_clear()


@lru_cache(maxsize=32)
def _recorded(site: Path) -> dict[str, Path]:
    """The package of each extension module and library below a folder of packages."""
    found: dict[str, Path] = {}
    for record in site.glob("*.dist-info/RECORD"):
        for line in read_text(str(record)).splitlines():
            name = line.partition(",")[0]
            if ".so" in name:
                found[name] = record.parent
    return found


def read_text(path: str) -> str:
    """A file's content; "" if it is missing, or cannot be read without harm."""
    try:
        return read_foreign(Path(path), most_bytes=_MAX_BYTES, owners=None).decode(errors="replace")
    except UsageError:
        return ""
