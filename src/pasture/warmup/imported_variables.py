"""Variables of the environment that modules set while they are loaded.

A module is loaded once, here: what it sets, each worker would have of it. So it stays.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.observing import Audit, is_importing


class ImportedVariables:
    """Hears of them inside a `with` of this object, if the program's own hooks let it."""

    def __init__(self) -> None:
        self._audit = Audit(self._hear)
        self._found: dict[str, str | None] = {}
        self._outer: FrameType | None = None

    def __enter__(self) -> ImportedVariables:
        with suppress(UnsupportedInterpreter):
            self._audit.start_or_refuse()
        return self

    def __exit__(self, *_: object) -> None:
        self._audit.drop()

    def begin(self) -> None:
        """The caller is about to run code that may import."""
        self._found, self._outer = {}, sys._getframe(1)

    def end(self) -> dict[str, str | None]:
        """Those since `begin`, by name; None for one that was deleted."""
        self._outer = None
        return self._found

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.putenv", "os.unsetenv") and is_importing(self._outer):
            name, *value = map(os.fsdecode, arguments)
            self._found[name] = value[0] if value else None
