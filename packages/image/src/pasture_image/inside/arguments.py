"""Arguments that record how they are asked, in a load that is thrown away.

While modules are loaded there is no program, and `sys.argv` is `["-c"]`. A module that looks at it
then (`TESTING = "test" in sys.argv`) has another answer in a program of other arguments. Asked
again for each program is whether one of them is a text. A module that does anything else with them
is refused, and one that asks `__main__` what it was loaded from. Not seen: code in C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pasture.observing import asker_besides

WORDS = ("/zqprogram/zqprogram", "zqargument")
_ON_THE_WAY = frozenset((
    *(__name__, "argparse", "optparse", "posixpath", "genericpath", "os", "fnmatch"),
    *("pathlib", "pathlib._local", "pathlib._os", "importlib._bootstrap"),
    "importlib._bootstrap_external",
))  # fmt: skip

PLAIN = {"__getattribute__", "__getnewargs__", "__sizeof__", "__new__", "__doc__", "maketrans"}
"""What a text that records keeps of `str`."""
questions: set[str] = set()
"""Texts of which modules have asked whether they are an argument."""
readers: set[str] = set()
"""Modules that have more of the arguments than that."""
of_path: set[str] = set()
"""Modules that have asked where the program's folder is on the search path, or from the working
directory on."""
_OF_PROGRAM = {"__file__", "__cached__", "__loader__", "__package__", "__dict__"}


class Arguments(list[str]):
    """Stands for `sys.argv`."""

    def __contains__(self, text: object) -> bool:
        if type(text) is str:
            questions.add(text)
        return list.__contains__(self, text)


class SearchPath(list[str]):
    """Stands for `sys.path`; a program's folder would be right before `first`."""

    first: str

    def is_by_place(self, at: Any) -> bool:
        """Whether a place, from the front, is another one behind the program's folder."""
        behind = next((n for n, one in enumerate(self) if one is self.first), len(self))
        if not isinstance(at, slice):
            return behind <= at if isinstance(at, int) else at == ""
        ends = (at.start or 0, behind if at.stop is None else at.stop)
        return ends != (0, behind) and behind < max(ends)


def _of_place(method: str) -> Callable[..., Any]:
    plain = getattr(list, method)

    def look(path: SearchPath, at: Any = -1, *rest: Any) -> Any:
        if method == "index" or path.is_by_place(at - 1 if method == "insert" else at):
            of_path.add(_asker())
        return plain(path, at, *rest)

    return look


for _method in (
    *("__getitem__", "__setitem__", "__delitem__", "pop", "insert"),
    *("__contains__", "remove", "index", "count"),
):
    setattr(SearchPath, _method, _of_place(_method))


class RelativePath:
    """Stands for `os.path.relpath`, which mostly asks for the working directory."""

    def __call__(self, path: Any, start: Any = None) -> Any:
        if os.fsdecode(path).startswith("/") != os.fsdecode(start or "").startswith("/"):
            of_path.add(_asker())
        return _relpath(path, start)


_relpath = os.path.relpath


class Main(ModuleType):
    """Of `__main__`; each import asks it for `__spec__`."""

    def __getattribute__(self, name: str) -> Any:
        by = sys._getframe(1).f_globals.get("__name__")
        if name in _OF_PROGRAM and by != "inspect":  # which looks at all modules
            readers.add(_asker())
        return ModuleType.__getattribute__(self, name)


def _reads(method: str) -> Callable[..., Any]:
    plain = getattr(list, method)

    def read(*args: Any, **options: Any) -> Any:
        readers.add(_asker())
        return plain(*args, **options)

    return read


for _method in vars(list).keys() - vars(Arguments).keys() - PLAIN - {"__init__"}:
    setattr(Arguments, _method, _reads(_method))


def _asker() -> str:
    return asker_besides(_ON_THE_WAY)


def stand_in() -> None:
    """Have modules see these from now on. In a process that is thrown away."""
    sys.modules["__main__"].__class__ = Main
    os.path.relpath = RelativePath()
    sys.path = path = SearchPath(sys.path)
    path.first = next(iter(path), "")
    sys.argv = Arguments(WORDS)
    sys.orig_argv = Arguments((sys.orig_argv[0], *WORDS))
