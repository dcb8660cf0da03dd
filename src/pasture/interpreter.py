"""The interpreter of this process, and whether its heap may be changed.

Owns the only import of the extension. All else calls `native()`, so that pasture can be imported,
and report the reason, where the extension cannot.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections import namedtuple
from collections.abc import Iterable
from types import ModuleType

from pasture.errors import UnsupportedInterpreter

_native: ModuleType | None
try:
    _native = importlib.import_module("pasture._native")
except ImportError as error:
    _native = None
    _IMPORT_ERROR = str(error)

_fits: ModuleType | None = None
"""The extension, once checked: the check writes to half a megabyte, once for all children."""

SUPPORTED = "CPython 3.11 to 3.15 with the GIL"
_UNSUPPORTED, _BUILD, _SUB_INTERPRETER = "unsupported", "build", "sub-interpreter"
"""As `Reason` has them, which a program out of an image has not loaded."""
FIRST_IMMORTAL = (3, 12)
"""The version of CPython from which on objects can be immortal."""

BUILD_HERE = "`pip install --force-reinstall --no-binary pasture pasture` builds it here"
"""The end of refusals with the code `Reason.BUILD`, those of the extension too."""


class Interpreter(
    namedtuple(
        "Interpreter",
        "implementation version free_threaded has_immortality unsupported why",
        defaults=(None,),
    )
):
    """Implementation, version, and whether it can be sealed.

    Attributes:
        implementation: "CPython", "PyPy".
        version: three numbers, as in "3.14.2".
        free_threaded: built without the GIL.
        has_immortality: objects can be exempt from reference counting.
        unsupported: why its heap must not be changed, or None.
        why: the code of `unsupported`.
    """

    __slots__ = ()

    def __str__(self) -> str:
        threading = " (free-threaded)" if self.free_threaded else ""
        return f"{self.implementation} {self.version}{threading}"


def current() -> Interpreter:
    """Describe the interpreter. Checks the layout of its structures once. Safe at any time."""
    from pasture.reasons import Reason

    refusal = _refusal()
    return Interpreter(
        implementation=_implementation(),
        version=sys.version.split()[0],
        free_threaded=_is_free_threaded(),
        has_immortality=bool(_native is not None and _native.HAS_IMMORTALITY),
        unsupported=None if refusal is None else refusal[1],
        why=None if refusal is None else Reason(refusal[0]),
    )


@functools.cache  # a seal asks for it fifty times
def native() -> ModuleType:
    """The extension, with its layout checked against this interpreter, once.

    Raises:
        UnsupportedInterpreter: it is missing for this interpreter, or must not be used.
    """
    refusal = _refusal()
    if refusal is not None or _native is None:
        why, sentence = refusal or (_UNSUPPORTED, "no extension")
        raise UnsupportedInterpreter(sentence, hint=hint_for(why))
    return _native


def hint_for(why: str | None) -> str:
    """The remedy for an extension that refuses for this reason; "" if its sentence has it."""
    if why == _SUB_INTERPRETER:
        return "call it in the main interpreter (mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
    return "" if why == _BUILD else f"use {SUPPORTED}"


def without_remedy(refusal: str) -> tuple[str, str]:
    """A refusal, or a part that is left out, without its remedy; and the remedy."""
    what, found, _ = refusal.partition(f": {BUILD_HERE}")
    return what, BUILD_HERE if found else f"use {SUPPORTED}"


Fields = dict[str, dict[str, int]]
"""Offsets and sizes in bytes, masks, numbers of bits, by holder and name: `field_offsets`."""


def fields() -> Fields:
    """Offsets of this interpreter that its extension has verified; raises as `native`."""
    return fields_from(native().field_offsets())


def fields_from(rows: Iterable[tuple[str, str, int]]) -> Fields:
    """Offsets as the extension lists them."""
    found: Fields = {}
    for holder, name, offset in rows:
        found.setdefault(holder, {})[name] = offset
    return found


def left_out() -> tuple[tuple[str, str], ...]:
    """Parts of the extension that do not work on this interpreter, each with a sentence why.

    A private field of the interpreter that could not be verified takes a part of pasture away.
    """
    if _refusal() is not None or _native is None:
        return ()
    return tuple(_native.left_out())


def _implementation() -> str:
    name = sys.implementation.name
    return {"cpython": "CPython", "pypy": "PyPy"}.get(name, name)


def _is_free_threaded() -> bool:
    # Not sysconfig or platform, which would be imported only for this, and sealed in.
    return "t" in sys.abiflags


def _refusal() -> tuple[str, str] | None:
    """A code and a sentence if the heap must not be changed, else None."""
    if sys.implementation.name != "cpython":
        return _UNSUPPORTED, f"{_implementation()} keeps its heap in another way than CPython"
    if _is_free_threaded():
        why = "a free-threaded build keeps its heap in another way than one with the GIL"
        with_gil = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return _UNSUPPORTED, f"{why}: run this on {with_gil}, which has it"
    if _native is None:
        why = f"the extension pasture._native cannot be imported: {_IMPORT_ERROR}"
        return _BUILD, f"{why}: {BUILD_HERE}"
    if _native.UNSUPPORTED is not None:
        return str(_native.WHY), str(_native.UNSUPPORTED)
    return _layout_refusal(_native)


def _layout_refusal(extension: ModuleType) -> tuple[str, str] | None:
    global _fits
    if extension is not _fits:
        try:
            extension.check_layout()
        except RuntimeError as error:
            builds = BUILD_HERE in str(error)
            return _BUILD if builds else _UNSUPPORTED, str(error)
        _fits = extension
    return None
