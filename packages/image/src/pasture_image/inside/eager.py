"""Modules of pasture are imported at once where others are imported lazily (PEP 810).

They watch imports, and run at the end of an interpreter when nothing can be imported any more. Owns
the filter that says so while an image is made; programs have the one that was there before.
"""

from __future__ import annotations

import sys
from typing import Any

_OWN = ("pasture", "pasture_image", "pasture_auto")
_before: Any = None


def begin() -> None:
    """Import modules of pasture at once from now on."""
    global _before
    if sys.version_info >= (3, 15):
        _before = sys.get_lazy_imports_filter()
        sys.set_lazy_imports_filter(_is_lazy)


def end() -> None:
    """Put back what was there."""
    if sys.version_info >= (3, 15):
        sys.set_lazy_imports_filter(_before)


def _is_lazy(importer: str | None, *names: Any) -> bool:
    if (importer or "").partition(".")[0] in _OWN:
        return False
    return _before is None or bool(_before(importer, *names))
