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

read: set[str] = set()
"""Names of the variables that were read."""
walkers: set[str] = set()
"""Modules that went through all variables; not empty: each of them matters."""
may_be_asked: set[str] = set()
"""Of the kernel, which shows the variables that a builder was started with."""
begins: set[str] = set()
"""How variables begin, in any case, that modules have looked for; `contains`: what is in them."""
contains: set[str] = set()
_read_in_walks: set[str] = set()
"""By a module that has gone through all: for their values, or each by its name."""
_blind: set[str] = set()
"""Of `walkers`: those of which a second load (`trial`) would not say which they look for."""


def narrow(walks: Mapping[str, tuple[Iterable[str], Iterable[str]]], asked: Iterable[str]) -> None:
    """Take over what a second load has shown.

    Args:
        walks: how variables begin that modules look for, and what they contain, by module.
        asked: variables that were read by names that came from no walk.
    """
    read.update(_read_in_walks.intersection(asked))
    for module in walks.keys() & walkers - _blind:
        walkers.discard(module)
        begins.update(walks[module][0])
        contains.update(walks[module][1])


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
        if not are_all:
            walkers.add("code in C (it asks getenv for too many names)")
        read.update(name for name in map(os.fsdecode, names) if not is_read_again("", name))

    def read_all(self) -> None:
        """Note that the calling module's code depends on all variables, and set them."""
        self._walked(is_blind=True)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """What is set and deleted inside is put back by the code that runs there, a warm-up.

        It finds no variable come to life meanwhile: all that can be asked for are set before.
        """
        read.update(self._take_over_all())
        before = dict(changed)
        self._is_warmed = True
        yield
        changed.clear()
        changed.update(before)

    def _read_all_in(self, asker: str) -> None:
        walkers.add(asker)
        self._take_over_all()

    def _take_over_all(self) -> list[str]:
        names = [os.fsdecode(key) for key in native().variable_names()]
        counted = [name for name in names if not is_uncounted(name)]
        for name in counted:
            self._take_over(os.fsencode(name))
        return counted

    def _methods(self) -> Mapping[str, Callable[..., Any]]:
        has_several = dict.__len__(self._all) > 1

        def put(environ: Variables, key: bytes, value: bytes) -> None:
            dict.__setitem__(environ, key, value)
            native().hide_variable(key)
            changed[os.fsdecode(key)] = os.fsdecode(value)

        def delete(environ: Variables, key: bytes) -> None:
            self._one(key)  # whether it is there
            dict.__delitem__(environ, key)
            changed[os.fsdecode(key)] = None
            if not dict.__len__(environ) and has_several:  # those of a program would go, too
                observing.note([("state", "all variables")])

        def add(environ: Variables, other: Any) -> Variables:
            environ.update(other)
            return environ

        of_mapping = ("setdefault", "pop", "popitem", "clear", "update")
        return {
            **{name: self._after(self._one, name) for name in READ_ONE},
            **{name: self._after(self._every, name) for name in READ_ALL},
            **{name: getattr(MutableMapping, name) for name in of_mapping},
            **{"__setitem__": put, "__delitem__": delete, "__ior__": add},
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
        self._take_over(key)
        if not is_read_again(asker, name) and not is_read_again(asker, ALL_VARIABLES):
            is_walked = asker in walkers and dict.__contains__(self._all, key)
            (_read_in_walks if is_walked else read).add(name)

    def _every(self, *_: object) -> None:
        self._walked(is_blind=self._is_warmed)

    def _walked(self, *, is_blind: bool) -> None:
        asker = asker_besides(ON_THE_WAY)
        if not is_read_again(asker, ALL_VARIABLES):
            if is_blind:
                _blind.add(asker)
            self._read_all_in(asker)

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
    found |= {name: environ.get(name) for name in read}
    shown = started_with(environ, named)
    found |= {name: shown.get(name) for name in may_be_asked}
    folded, parts = tuple(map(str.lower, begins)), [*map(str.lower, contains)]
    return found | {
        name: value
        for name, value in environ.items()
        if not is_uncounted(name)
        if walkers or name.lower().startswith(folded) or any(part in name.lower() for part in parts)
    }


def _read_again() -> frozenset[str]:
    """Variables whose reading is done again for each program: modules know nothing of them."""
    is_locale_known = observing.sets_locale or not READ_AGAIN.isdisjoint(read)
    again = frozenset() if is_locale_known else READ_AGAIN
    return again if "HOME" in read else again | {"HOME"}
