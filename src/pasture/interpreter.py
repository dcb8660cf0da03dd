"""Which interpreter this is, and whether its heap may be touched.

Owns the one import of the extension. Everything else asks `native()`, so that pasture can
be imported, and explain itself, where the extension cannot.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType

from pasture.errors import UnsupportedInterpreter

_native: ModuleType | None
try:
    _native = importlib.import_module("pasture._native")
except ImportError as error:
    _native = None
    _IMPORT_ERROR = str(error)

_fits: ModuleType | None = None
"""The extension whose layout was found to fit: the check writes to half a megabyte, so that a
child had better not repeat it."""

SUPPORTED = "CPython 3.11 to 3.15 with the GIL"
FIRST_WITH = {"immortalize": (3, 12)}
"""The version of CPython from which on a step of a seal exists, where that is not the oldest."""

BUILD_HERE = "`pip install --force-reinstall --no-binary pasture pasture` builds it here"


_STEPS = frozenset({"immortal objects", "gathered code", "plugging of pools"})
"""Parts of the extension that are steps of a seal."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter of a process.

    Attributes:
        implementation: "CPython", "PyPy".
        version: three numbers, as in "3.14.2".
        free_threaded: built without the GIL.
        has_immortality: objects can be exempt from reference counting.
        unsupported: why its heap may not be touched; None if it may.
    """

    implementation: str
    version: str
    free_threaded: bool
    has_immortality: bool
    unsupported: str | None

    def __str__(self) -> str:
        threading = " (free-threaded)" if self.free_threaded else ""
        return f"{self.implementation} {self.version}{threading}"


def current() -> Interpreter:
    """Describe the interpreter that runs. Checks the layout of its structures once.

    Safe at any time, with other threads running too.
    """
    return Interpreter(
        implementation=_implementation(),
        version=sys.version.split()[0],
        free_threaded=_is_free_threaded(),
        has_immortality=bool(_native is not None and _native.HAS_IMMORTALITY),
        unsupported=_why_unsupported(),
    )


def native() -> ModuleType:
    """The extension, its layout checked against this interpreter.

    Raises:
        UnsupportedInterpreter: there is none for this interpreter, or it must not be used.
    """
    reason = _why_unsupported()
    if reason is not None or _native is None:
        raise UnsupportedInterpreter(reason or "no extension", hint=hint_for(reason))
    return _native


def hint_for(reason: str | None) -> str:
    """What to do about an extension that refuses for this reason; "" where that says it."""
    if reason is not None and "sub-interpreter" in reason:
        return "call it in the main interpreter (mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
    return "" if reason is not None and BUILD_HERE in reason else f"use {SUPPORTED}"


def left_out() -> tuple[str, ...]:
    """What pasture does without on this interpreter, beside steps of a seal: each a sentence.

    A private field of the interpreter that could not be verified takes a part of pasture away.
    Steps of a seal that go with it say so themselves.
    """
    if _why_unsupported() is not None or _native is None:
        return ()
    return tuple(f"no {part}: {why}" for part, why in _native.left_out() if part not in _STEPS)


def _implementation() -> str:
    name = sys.implementation.name
    return {"cpython": "CPython", "pypy": "PyPy"}.get(name, name)


def _is_free_threaded() -> bool:
    # Not sysconfig, nor platform: they would be imported for this alone, and sealed in.
    return "t" in sys.abiflags


def _why_unsupported() -> str | None:
    if sys.implementation.name != "cpython":
        return f"{_implementation()} keeps its heap in another way than CPython"
    if _is_free_threaded():
        why = "a free-threaded build keeps its heap in another way than one with the GIL"
        return f"{why}: run this on python{sys.version_info[0]}.{sys.version_info[1]}, which has it"
    if _native is None:
        why = f"the extension pasture._native cannot be imported: {_IMPORT_ERROR}"
        return f"{why}: {BUILD_HERE}"
    if _native.UNSUPPORTED is not None:
        return str(_native.UNSUPPORTED)
    return _why_layout_differs(_native)


def _why_layout_differs(extension: ModuleType) -> str | None:
    global _fits
    if extension is not _fits:
        try:
            extension.check_layout()
        except RuntimeError as error:
            return str(error)
        _fits = extension
    return None
