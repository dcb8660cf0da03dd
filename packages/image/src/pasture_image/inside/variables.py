"""Which variables of the environment modules read while they are loaded.

A process that starts with other values of these would not have become the same one, so it must
not come out of an image. Nothing of the others may come into the image: they are another
user's, and may be secrets. So a builder starts with the variables that matter to every start
(`start_variables`). All others are in a file, and come into the process one by one as they are
read.

Owns that, and what loading has done to the environment. Python code reads through `posix.environ`,
code in C through `getenv`: both are watched. Going through all variables reads them all, and so
does starting a program that inherits them. Reads that `reread` repeats do not count.
"""

from __future__ import annotations

import os
import posix
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from pasture.errors import ImageFailed
from pasture.interpreter import native
from pasture.observing import asker_besides
from pasture_image.inside import environment, observing
from pasture_image.inside.program import changed
from pasture_image.inside.reread import ALL_VARIABLES, is_read_again
from pasture_image.inside.start_variables import (
    READ_AGAIN,
    always_read,
    beginnings,
    is_uncounted,
    started_with,
)

ON_THE_WAY = frozenset((
    *(__name__, "pasture_image.inside.observing", "os", "collections.abc", "subprocess", "copy"),
    *("posixpath", "pathlib", "pathlib._local"),
    *("pty", "multiprocessing.popen_fork", "multiprocessing.context", "multiprocessing.process"),
))  # fmt: skip
"""Modules whose functions only pass on what another one asks for."""

_read: set[str] = set()
_read_in_c: set[str] = set()
_read_in_walks: set[str] = set()
"""By a module that has gone through all: for their values, or each by its name."""
_walkers: set[str] = set()
_blind: set[str] = set()
"""Of `_walkers`: those of which a second load (`trial`) would not say which they look for."""
_may_be_asked: set[str] = set()
"""Of the kernel, which shows the variables that a builder was started with."""
_begins: set[str] = set()
_contains: set[str] = set()


def read() -> frozenset[str]:
    """Names of the variables that were read."""
    return frozenset(_read)


def walkers() -> tuple[str, ...]:
    """Modules that went through all variables; not empty: each of them matters."""
    return tuple(sorted(_walkers))


def note_asked(names: Iterable[str], walker: str) -> None:
    """Note which variables code in C may have asked the kernel for; all, by `walker`, if none."""
    _may_be_asked.update(names)
    if not _may_be_asked:
        _walkers.add(walker)


def may_be_asked() -> frozenset[str]:
    """Variables that code in C may have asked the kernel for."""
    return frozenset(_may_be_asked)


def narrow(walks: Mapping[str, tuple[Iterable[str], Iterable[str]]], asked: Iterable[str]) -> None:
    """Take over what a second load has shown.

    Args:
        walks: how variables begin that modules look for, and what they contain, by module.
        asked: variables that were read by names that came from no walk.
    """
    _read.update(_read_in_walks.intersection(asked))
    for module in walks.keys() & _walkers - _blind:
        _walkers.discard(module)
        _begins.update(walks[module][0])
        _contains.update(walks[module][1])


def looked_for() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How variables begin, in any case, and what they contain, that modules have looked for."""
    return tuple(sorted(_begins)), tuple(sorted(_contains))


def _is_looked_for(name: str) -> bool:
    folded = name.lower()
    return folded.startswith(tuple(begin.lower() for begin in _begins)) or any(
        text.lower() in folded for text in _contains
    )


class Variables(dict[bytes, bytes]):
    """In the place of `posix.environ` for good, since modules keep references to it.

    Has the methods of a plain dictionary but while it is recorded what is read.
    """

    __slots__ = ()


class VariablesRead:
    """Records inside a `with` block. One at a time."""

    def __init__(self, file: int) -> None:
        """Prepare.

        Args:
            file: descriptor of a file that `write_variables` has filled.
        """
        self._file = file
        self._all = replaced_environ()
        self._is_warmed = False

    def __enter__(self) -> VariablesRead:
        is_complete = native().open_variables(self._file)
        for name in changed:
            native().hide_variable(os.fsencode(name))
        for key in self._all:
            native().hide_variable(key)
        if not is_complete:
            self._read_all_in("code in C (getenv cannot be watched here)")
        for method, function in self._methods().items():
            setattr(Variables, method, function)
        return self

    def __exit__(self, *_: object) -> None:
        for method in self._methods():
            delattr(Variables, method)
        try:
            names, are_all = native().close_variables()
        except OSError as error:
            raise ImageFailed(f"getenv cannot be put back: {error}") from error
        asked = {os.fsdecode(name) for name in names}
        _read_in_c.update(asked)
        if not are_all:
            _walkers.add("code in C (it asks getenv for too many names)")
        _read.update(name for name in asked if not is_read_again("", name))

    def read_all(self) -> None:
        """Note that the calling module's code depends on all variables, and set them."""
        asker = asker_besides(ON_THE_WAY)
        if not is_read_again(asker, ALL_VARIABLES):
            _blind.add(asker)
            self._read_all_in(asker)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """What is set and deleted inside is put back by the code that runs there, a warm-up.

        It finds no variable come to life meanwhile: all that can be asked for are set before.
        """
        for key in native().variable_names():
            if not is_uncounted(os.fsdecode(key)):
                _read.add(os.fsdecode(key))
                self._take_over(key)
        before = dict(changed)
        self._is_warmed = True
        yield
        changed.clear()
        changed.update(before)

    def _read_all_in(self, asker: str) -> None:
        _walkers.add(asker)
        for key in native().variable_names():
            if not is_uncounted(os.fsdecode(key)):
                self._take_over(key)

    def _methods(self) -> Mapping[str, Callable[..., Any]]:
        one = {name: self._after(self._one, name) for name in READ_ONE}
        all_of_them = {name: self._after(self._every, name) for name in READ_ALL}
        return {
            **one,
            **all_of_them,
            "__setitem__": self._set,
            "__delitem__": self._delete,
            "setdefault": MutableMapping.setdefault,
            "pop": MutableMapping.pop,
            "popitem": MutableMapping.popitem,
            "clear": MutableMapping.clear,
            "update": MutableMapping.update,
            "__ior__": _updated,
        }

    @staticmethod
    def _after(note: Callable[..., object], name: str) -> Callable[..., Any]:
        plain = getattr(dict, name)

        def method(environ: Variables, *args: Any) -> Any:
            note(*args)
            return plain(environ, *args)

        return method

    def _one(self, key: object, *_: object) -> None:
        if not isinstance(key, bytes):
            return
        name, asker = os.fsdecode(key), asker_besides(ON_THE_WAY)
        if name in changed:
            return
        if is_read_again(asker, name) or is_read_again(asker, ALL_VARIABLES):
            self._take_over(key)
            return
        self._take_over(key)
        is_walked = asker in _walkers and dict.__contains__(self._all, key)
        (_read_in_walks if is_walked else _read).add(name)

    def _every(self, *_: object) -> None:
        if self._is_warmed:
            self.read_all()
            return
        asker = asker_besides(ON_THE_WAY)
        if not is_read_again(asker, ALL_VARIABLES):
            self._read_all_in(asker)

    @property
    def _set(self) -> Callable[..., None]:
        def method(environ: Variables, key: bytes, value: bytes) -> None:
            dict.__setitem__(environ, key, value)
            native().hide_variable(key)
            changed[os.fsdecode(key)] = os.fsdecode(value)

        return method

    @property
    def _delete(self) -> Callable[..., None]:
        def method(environ: Variables, key: bytes) -> None:
            self._one(key)  # whether it is there
            dict.__delitem__(environ, key)
            changed[os.fsdecode(key)] = None

        return method

    def _take_over(self, key: bytes) -> None:
        """As if the process had been started with it."""
        value = native().find_variable(key)
        if value is not None:
            native().hide_variable(key)
            dict.__setitem__(self._all, key, value)
            posix.putenv(key, value)


READ_ONE = ("__getitem__", "get", "__contains__")
READ_ALL = (
    *("__iter__", "__len__", "__reversed__", "__repr__", "keys", "values", "items", "copy"),
    *("__or__", "__ror__", "__eq__", "__ne__", "__reduce_ex__"),
)


def _updated(environ: Variables, other: Any) -> Variables:
    environ.update(other)
    return environ


def replaced_environ() -> Variables:
    """The dictionary under `os.environ`, as one that can be watched."""
    if isinstance(posix.environ, Variables):
        return posix.environ
    environ = Variables(posix.environ)
    posix.environ = environ
    outer: Any
    for outer in (os.environ, os.environb):
        outer._data = environ
    return environ


def fill_in(file: int) -> None:
    """Set all variables, as in a process that was started with them. Nothing is recorded."""
    for name, value in environment.read(file).items():
        if name not in changed:
            os.environ[name] = value


def needed(
    environ: Mapping[str, str], modules: Iterable[str], named: Iterable[str]
) -> dict[str, str | None]:
    """The variables that a process out of an image must have as they are in an environment.

    Args:
        environ: that the image is made in.
        modules: names of those that it has loaded.
        named: variables that were named for it.

    Returns:
        Values by name; None for one that must not be set.
    """
    found = always_read(environ, beginnings(modules))
    own = {"TZ"} & changed.keys()  # modules set it again, as Django does
    for name in _read_again() | own:
        del found[name]
    found |= {name: environ.get(name) for name in _read}
    shown = started_with(environ, named)
    found |= {name: shown.get(name) for name in _may_be_asked}
    found |= {name: v for name, v in environ.items()
              if (_walkers or _is_looked_for(name)) and not is_uncounted(name)}  # fmt: skip
    return found


def _read_again() -> frozenset[str]:
    """Variables whose reading is done again for each program: modules know nothing of them."""
    is_locale_known = observing.sets_locale or not READ_AGAIN.isdisjoint(_read)
    again = frozenset() if is_locale_known else READ_AGAIN
    return again if "HOME" in _read else again | {"HOME"}
