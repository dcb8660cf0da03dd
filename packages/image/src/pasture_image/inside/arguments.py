"""Arguments that record how they are asked, in a load that is thrown away.

While modules are loaded there is no program, and `sys.argv` is `["-c"]`. A module that looks at it
then (`TESTING = "test" in sys.argv`) has another answer in a program of other arguments. Whether
one is a text, or what follows its last `/` is, is asked again for each program. Where an argument
goes on otherwise (kept, measured, hashed, asked for a part, put into a text), all of them count.
Not seen: a text joined of arguments by a method of another string, and code in C.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pasture.observing import asker_besides
from pasture_image.inside.program import Question

_WORDS = ("/zq/zqmark/zqprogram", "zqargument")
_ON_THE_WAY = frozenset((
    *(__name__, "argparse", "optparse", "posixpath", "genericpath", "os", "fnmatch"),
    *("pathlib", "pathlib._local", "pathlib._os"),
))  # fmt: skip


class _Asked:
    """Modules that took one argument, and what they asked of it.

    Attributes:
        by: who has got it, and who has asked; `readers`: who has more than answers.
    """

    def __init__(self) -> None:
        self.questions: set[Question] = set()
        self.by: tuple[set[str], set[str]] = (set(), set())
        self.readers: set[str] = set()


class Argument(str):
    """An argument, or its name: what follows the last `/`."""

    _asked: _Asked
    _is_name: bool

    @classmethod
    def made(cls, text: str, asked: _Asked, *, name: bool = False) -> Argument:
        found = str.__new__(cls, text)
        found._asked, found._is_name = asked, name
        return found

    def _take(self) -> None:
        self._asked.readers.add(_asker())

    def __eq__(self, other: object) -> bool:
        if type(other) is str:
            self._asked.questions.add(Question(other, self._is_name))
        self._asked.by[1].add(_asker())
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != ""

    def rfind(self, text: str, *at: Any) -> int:
        if text != "/":  # as `os.path.basename`: what it makes of the answer is seen
            self._take()
        return str.rfind(self, text, *at)

    def __getitem__(self, index: Any) -> str:
        self._asked.by[0].add(_asker())
        is_end = isinstance(index, slice) and index.stop is None and index.step is None
        if not is_end or index.start != str.rfind(self, "/") + 1:
            self._take()
        return Argument.made(str.__getitem__(self, index), self._asked, name=True)


def _takes(method: str) -> Callable[..., Any]:
    plain = getattr(str, method)

    def take(self: Argument, *args: Any, **options: Any) -> Any:
        self._take()
        return plain(self, *args, **options)

    return take


PLAIN = {"__getattribute__", "__getnewargs__", "__sizeof__", "__new__", "__doc__", "maketrans"}
"""What a text that records keeps of `str`."""
_SEEN = {name for name, value in vars(Argument).items() if callable(value)}
for _method in vars(str).keys() - _SEEN - PLAIN:
    setattr(Argument, _method, _takes(_method))


class Arguments(list[str]):
    """Stands for `sys.argv`, and records who takes an item or asks how many there are."""

    def __init__(self) -> None:
        self._all = [_Asked() for _ in _WORDS]
        self._counted: set[str] = set()
        words = (Argument.made(word, a) for word, a in zip(_WORDS, self._all, strict=True))
        list.__init__(self, words)

    def __getitem__(self, index: Any) -> Any:
        return _got(list.__getitem__(self, index))

    def __iter__(self) -> Iterator[str]:
        return map(_got, list.__iter__(self))

    def copy(self) -> list[str]:
        return self[:]  # type: ignore[no-any-return]

    def __len__(self) -> int:
        self._counted.add(_asker())
        return list.__len__(self)

    def questions(self) -> list[Question]:
        """What was asked, once all is loaded."""
        return sorted({question for asked in self._all for question in asked.questions})

    def askers(self) -> list[str]:
        """Modules that have asked."""
        return sorted({asker for asked in self._all for asker in asked.by[1]})

    def readers(self) -> list[str]:
        """Modules that have more of the arguments than answers to these."""
        found = {reader for asked in self._all for reader in asked.readers}
        got = {by for asked in self._all for by in asked.by[0]}
        found |= {by for asked in self._all for by in asked.by[0] - asked.by[1]}
        found |= self._counted - got
        gc.collect()
        own = {id(one) for one in list.__iter__(self)}
        for left in gc.get_objects():
            if type(left) is Argument and id(left) not in own:
                found |= left._asked.by[0] | left._asked.by[1] or {"a module"}
        return sorted(found)


def _changes(method: str) -> Callable[..., Any]:
    plain = getattr(list, method)

    def change(self: Arguments, *args: Any) -> Any:
        self._all[0].readers.add(_asker())
        return plain(self, *args)

    return change


for _method in (
    *("__setitem__", "__delitem__", "__iadd__", "pop", "remove", "clear", "insert", "append"),
    *("extend", "reverse", "sort"),
):
    setattr(Arguments, _method, _changes(_method))


def _got(items: Any) -> Any:
    for one in items if isinstance(items, list) else [items]:
        if type(one) is Argument:
            one._asked.by[0].add(_asker())
    return items


def _asker() -> str:
    return asker_besides(_ON_THE_WAY)


def stand_in() -> Arguments:
    """Have modules see these from now on. In a process that is thrown away."""
    found = Arguments()
    sys.argv = found
    sys.orig_argv[1:] = list.__iter__(found)
    return found
