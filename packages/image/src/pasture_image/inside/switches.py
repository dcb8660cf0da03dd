"""`-u` and `-B`, and their variables: a program may have them otherwise than the build.

A program gets what its own start would have made of them. `-u` is nowhere but in the standard
streams, which are the program's (`streams`). `-B` is in `sys` for all to read, and a module may
keep what it has read while it was loaded: then, and where that is not known, it is the build's, or
the program is for the interpreter. Reads are recorded in a load that is thrown away (`stand_in`),
of variables as of all others (`variables`). Not seen: what code in C asks the interpreter for,
`vars(sys)`, and `write_through` of a stream.

Source: CPython 3.14 Python/initconfig.c, config_read_env_vars and _Py_get_env_flag.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pasture.interpreter import native
from pasture.observing import asker_besides

OPTIONS = ("-u", "-B")  # in the order of src/stub/options.c
VARIABLES = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
_FLAG = "dont_write_bytecode"
_OFF = re.compile(rb"[ \t-\r]*[+-]?0+")

readers: Sequence[str] = ("a module, for all that is known,",)
"""Modules that have read `-B` while they were loaded; not known without a second load."""

_read: set[str] = set()


def begin_program(given: int, environ: Sequence[bytes]) -> bool:
    """Set the options. Where a copy has come to life.

    Args:
        given: bit N for each of `OPTIONS` that is on the command line.
        environ: variables of the program, as `NAME=VALUE`.

    Returns:
        Whether the program's streams are unbuffered.

    Raises:
        RuntimeError: a module has read one that was another one then.
    """
    is_unbuffered, is_on = (
        bool(given >> number & 1) or _is_set(variable, environ)
        for number, variable in enumerate(VARIABLES)
    )
    native().set_unbuffered(is_unbuffered)
    if is_on != bool(sys.flags.dont_write_bytecode):
        if readers:
            raise RuntimeError(f"{readers[0]} read sys.{_FLAG} while it was loaded")
        fields: Any = type(sys.flags).__match_args__
        native().set_dont_write_bytecode(sys.flags, fields.index(_FLAG), is_on)
        sys.dont_write_bytecode = is_on
    return is_unbuffered


def _is_set(variable: str, environ: Sequence[bytes]) -> bool:
    begin = f"{variable}=".encode()
    value = next((one[len(begin) :] for one in environ if one.startswith(begin)), b"")
    return bool(value and not sys.flags.ignore_environment and not _OFF.fullmatch(value))


class _Flags(tuple[Any, ...]):
    """Stands for `sys.flags`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == _FLAG:
            _note()
        return getattr(_plain, name)


_plain: Any = sys.flags


def _takes(method: str) -> Any:
    def take(self: _Flags, *args: Any) -> Any:
        _note()
        return getattr(tuple, method)(self, *args)

    return take


_SAY_NOTHING = {"__new__", "__getattribute__", "__class_getitem__", "__doc__", "__len__"}
for _method in vars(tuple).keys() - _SAY_NOTHING:
    setattr(_Flags, _method, _takes(_method))


class _Sys(ModuleType):
    """The class of `sys` meanwhile."""

    @property
    def dont_write_bytecode(self) -> Any:
        if sys._getframe(1).f_globals is not vars(sys.modules["_frozen_importlib_external"]):
            _note()
        return vars(sys)[_FLAG]

    @dont_write_bytecode.setter
    def dont_write_bytecode(self, value: Any) -> None:
        _note()
        vars(sys)[_FLAG] = value


def _note() -> None:
    _read.add(asker_besides((__name__, "subprocess")))


def stand_in() -> None:
    """Record who reads `-B` from now on. In a process that is thrown away."""
    sys.flags = _Flags(tuple.__iter__(_plain))  # type: ignore[assignment]
    sys.__class__ = _Sys


def read() -> list[str]:
    """Modules that have read it, or set it."""
    return sorted(_read)
