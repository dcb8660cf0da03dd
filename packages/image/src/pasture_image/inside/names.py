"""Names of variables that record how they are asked, in a load that is thrown away.

A module that goes through all variables mostly looks for some: `name.startswith("TQDM_")`. While
`Names` is open names come as strings that note such questions, and there are variables that no
module has heard of. A module has said which variables matter to it if it has asked each name how it
begins, what it contains or whether it is a text, and does nothing else with a name that no question
fits. Where it does (a name is hashed, measured, matched by a regular expression, kept), or where it
asks how many there are or takes a copy, all variables may matter.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from pasture.observing import asker_besides
from pasture_image.inside import variables
from pasture_image.inside.arguments import PLAIN
from pasture_image.inside.reread import is_read_again

_MARK = "zqmark"
_UNKNOWN = ("zq_unknown", "ZQX7", "ZQX7_NAME_OF__A_VARIABLE_WHICH_NO_MODULE_LOOKS_FOR")
MARKS = (_MARK, "zq_unknown", "zqx7")
"""What no text of a module contains, in lower case, unless it has kept one of these."""


class Walk:
    """How one module went through all variables.

    Attributes:
        begins: how names begin that it looks for, in any case; `contains`: what they contain.
        is_blind: whether all may matter.
    """

    def __init__(self) -> None:
        self.begins: set[str] = set()
        self.contains: set[str] = set()
        self.is_blind = False


class _Origin:
    """A name that a walk has met: whether it was asked, and whether an answer was yes."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.is_asked, self.is_found = walk, False, False


class Name(str):
    """A name of a variable, or what was made of one."""

    _origin: _Origin
    _is_begin: bool

    @classmethod
    def made(cls, text: str, origin: _Origin, is_begin: bool = True) -> Name:
        made = str.__new__(cls, text)
        made._origin, made._is_begin = origin, is_begin
        return made

    def _asked(self, texts: Any, answer: bool, is_begin: bool = False) -> bool:
        walk = self._origin.walk
        noted = walk.begins if is_begin and self._is_begin else walk.contains
        noted.update(map(str, texts if isinstance(texts, tuple) else (texts,)))
        self._origin.is_asked = True
        self._origin.is_found |= answer
        return answer

    def blind(self) -> None:
        self._origin.walk.is_blind |= not self._origin.is_found

    def encode(self, *args: Any, **options: Any) -> bytes:
        """`os.environ[name]` does that."""
        key = str.encode(self, *args, **options)
        if sys._getframe(1).f_globals.get("__name__") == "os":
            return _Key(key)
        self.blind()
        return key

    def startswith(self, prefix: Any, *at: Any) -> bool:
        return self._asked(prefix, str.startswith(self, prefix, *at), not at)

    def endswith(self, suffix: Any, *at: Any) -> bool:
        return self._asked(suffix, str.endswith(self, suffix, *at))

    def __contains__(self, text: Any) -> bool:
        return self._asked(text, str.__contains__(self, text))

    def __eq__(self, other: object) -> bool:
        answer = str.__eq__(self, other)
        if isinstance(other, str) and not isinstance(other, Name):
            return self._asked(other, answer is True, True)
        return answer

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self.blind()
        return str.__hash__(self)

    def __getitem__(self, index: Any) -> str:
        is_first = isinstance(index, slice) and not index.start and index.step is None
        return Name.made(str.__getitem__(self, index), self._origin, self._is_begin and is_first)


def _makes(method: str) -> Callable[..., Any]:
    plain = getattr(str, method)
    return lambda self: Name.made(plain(self), self._origin, self._is_begin)


def _is_seen_blindly(method: str) -> Callable[..., Any]:
    plain = getattr(str, method)

    def see(self: Name, *args: Any, **options: Any) -> Any:
        self.blind()
        return plain(self, *args, **options)

    return see


_ORDER = {"__lt__", "__le__", "__gt__", "__ge__"}
"""Sorted names are what they were."""
for _method in ("lower", "upper", "casefold"):
    setattr(Name, _method, _makes(_method))
for _method in vars(str).keys() - vars(Name).keys() - PLAIN - _ORDER:
    setattr(Name, _method, _is_seen_blindly(_method))


class _Key(bytes):
    """A name that came from a walk, as the dictionary below `os.environ` has it."""

    __slots__ = ()


class _Value(str):
    """Of a variable that is unheard of."""

    __slots__ = ("walk",)
    walk: Walk


class Names:
    """Records inside a `with` block, for as long as the process lives.

    Attributes:
        walks: by the modules that went.
        asked: variables that were read by names that came from no walk.
    """

    def __init__(self) -> None:
        self.walks: dict[str, Walk] = {}
        self.asked: set[str] = set()
        self._origins: list[_Origin] = []

    def __enter__(self) -> Names:
        variables.replaced_environ()
        self._plain = os.environ.decodekey, os.environ.decodevalue
        for number, name in enumerate(_UNKNOWN):
            os.environ[name] = f"{_MARK}{number}"
        os.environ.decodekey = self._key  # type: ignore[assignment]
        os.environ.decodevalue = self._value  # type: ignore[assignment]
        for method in variables.READ_ALL:
            setattr(variables.Variables, method, self._walked(method))
        for method in variables.READ_ONE:
            setattr(variables.Variables, method, self._read(method))
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.decodekey, os.environ.decodevalue = self._plain
        gc.collect()
        for left in gc.get_objects():
            if type(left) is Name:
                left.blind()
            elif type(left) is _Value:
                left.walk.is_blind = True
        for origin in self._origins:
            origin.walk.is_blind |= not origin.is_asked

    def _walk(self) -> Walk:
        return self.walks.setdefault(_asker(), Walk())

    def _key(self, raw: bytes) -> str:
        origin = _Origin(self._walk())
        self._origins.append(origin)
        return Name.made(self._plain[0](raw), origin)  # type: ignore[arg-type]

    def _value(self, raw: bytes) -> str:
        text: str = self._plain[1](raw)  # type: ignore[arg-type]
        if not text.startswith(_MARK):
            return text
        value = _Value(text)
        value.walk = self._walk()
        return value

    def _read(self, method: str) -> Callable[..., Any]:
        plain = getattr(dict, method)

        def read(environ: Any, key: Any, *default: Any) -> Any:
            if type(key) is bytes and not is_read_again(_asker(), name := os.fsdecode(key)):
                self.asked.add(name)
            return plain(environ, key, *default)

        return read

    def _walked(self, method: str) -> Callable[..., Any]:
        plain = getattr(dict, method)

        def walk(environ: Any, *args: Any) -> Any:
            frame = sys._getframe(1)
            if frame.f_code is not _ITERATE or frame.f_locals["self"] is not os.environ:
                self._walk().is_blind = True
            return plain(environ, *args)

        return walk


_ITERATE = type(os.environ).__iter__.__code__


def _asker() -> str:
    return asker_besides((*variables.ON_THE_WAY, __name__))
