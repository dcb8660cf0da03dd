"""Which variables of the environment modules read while they are loaded.

A process that starts with other values of these would not have become the same one, so it must
not be served from an image. Reads by Python code are seen; those by C code are listed in
`manifest`. Going through all variables counts for nothing: that is how they are handed on. So do
reads that `reread` repeats.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pasture.zygote.reread import is_read_again

_Environ: Any = type(os.environ)
_ON_THE_WAY = frozenset((__name__, "os", "collections.abc", "subprocess"))
"""Modules whose functions only pass on what another one asks for."""


class _Walked(str):
    """The name of a variable that came from going through all of them."""

    __slots__ = ()


class _Recording(_Environ):  # type: ignore[misc]
    """`os.environ` that remembers what is asked for."""

    seen: set[str | bytes]

    def __getitem__(self, key: Any) -> Any:
        if type(key) in (str, bytes) and not is_read_again(_asker(), os.fsdecode(key)):
            self.seen.add(key)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            yield _Walked(key) if isinstance(key, str) else key

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(str(key) if isinstance(key, _Walked) else key, value)


def _asker() -> str:
    """The module whose code asks for a variable."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _ON_THE_WAY:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


class VariablesRead:
    """Records inside a `with` block. One at a time, with no other thread running."""

    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._seen: set[str | bytes] = set()

    def __enter__(self) -> VariablesRead:
        for environ in self._environments():
            environ.seen = self._seen
            environ.__class__ = _Recording
        return self

    def __exit__(self, *_: object) -> None:
        for environ in self._environments():
            environ.__class__ = _Environ
            del environ.seen

    def values(self) -> dict[str, str | None]:
        """What was read, with the values from before the block; None: was not set."""
        names = sorted(os.fsdecode(name) for name in self._seen)
        return {name: self._before.get(name) for name in names}

    @staticmethod
    def _environments() -> list[Any]:
        return [os.environ, os.environb]
