"""Names of variables that record how they are asked, in a load that is thrown away.

A module that goes through all variables mostly looks for some: `name.startswith("TQDM_")`. While
`Names` is open names come as strings that note such questions, and there are variables that no
module has heard of. A module has said which variables matter to it if each name was asked, and none
went on that was not looked for. Where a name is hashed, say, or matched by a regular expression, or
where an unheard-of one is left at the end, all variables may matter. Two things are no answer yet:
that a name is long enough to be asked more, and that it passes one question of several
(`name[-6] == "_" and name[-5:] == "proxy"`), which an unheard-of one has passed without effect.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from pasture.observing import asker_besides
from pasture_image.inside import variables
from pasture_image.inside.arguments import PLAIN
from pasture_image.inside.reread import is_read_again

_MARK = "zqmark"
_UNKNOWN = "ZQX7_UNKNOWN_NAME_OF__A_VARIABLE_WHICH_NO_MODULE_LOOKS_FOR"
UNKNOWN = ("zq_unknown", *(_UNKNOWN[:length] for length in range(1, len(_UNKNOWN) + 1)))
"""Of all lengths, and with `_` at many places."""
MARKS = (_MARK, _UNKNOWN[:4].lower())
"""What no text of a module contains, in lower case, unless it has kept one of these."""
_Question = tuple[CodeType, int, str, bool]
"""Where it was asked, the text, and whether that is how a name begins."""


@dataclass(slots=True)
class Walk:
    """How one module went through all variables.

    Attributes:
        begins: how names begin that it looks for, in any case.
        contains: what they contain.
        is_blind: whether all may matter.
        questions: all that were asked.
        lengths: of names that were asked for more than their length, and of those that were not.
    """

    begins: set[str] = field(default_factory=set)
    contains: set[str] = field(default_factory=set)
    is_blind: bool = False
    questions: set[_Question] = field(default_factory=set)
    lengths: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))

    def settle(self, origins: list[_Origin]) -> None:
        """Nothing more is asked.

        Args:
            origins: of names that it has met.
        """
        harmless: set[_Question] = set()
        for origin in origins:
            if origin.is_asked or origin.is_measured:
                self.lengths[not origin.is_asked].add(len(origin.text))
            else:
                self.is_blind = True
            if origin.text in UNKNOWN and not origin.is_used and not origin.answer:
                harmless |= origin.passed
        asked, measured = self.lengths
        if measured:
            self.is_blind |= not (
                asked and (max(measured) < min(asked) or max(asked) < min(measured))
            )
        for question in self.questions - harmless:
            (self.begins if question[3] else self.contains).add(question[2])


class _Origin:
    """A name of a variable that a walk has met.

    Attributes:
        is_measured: whether it was asked how long it is.
        is_found: whether a question had the answer yes; `passed`: those.
        answer: the last one.
        is_used: whether more became of it: its value was read, or it is kept.
    """

    def __init__(self, walk: Walk, text: str) -> None:
        self.walk, self.text = walk, text
        self.is_asked = self.is_measured = self.is_found = self.is_used = self.answer = False
        self.passed: set[_Question] = set()


class Name(str):
    """A name of a variable, or what was made of one."""

    _origin: _Origin
    _is_begin: bool

    @classmethod
    def _made(cls, text: str, origin: _Origin, is_begin: bool) -> Name:
        made = str.__new__(cls, text)
        made._origin, made._is_begin = origin, is_begin
        return made

    def _asked(self, texts: Any, answer: bool, is_begin: bool) -> bool:
        origin, frame = self._origin, sys._getframe(2)
        origin.is_asked, origin.answer = True, answer
        origin.is_found |= answer
        for text in texts if isinstance(texts, tuple) else (texts,):
            question = frame.f_code, frame.f_lasti, str(text), is_begin and self._is_begin
            origin.walk.questions.add(question)
            if answer and text is texts:  # which of a tuple is not known
                origin.passed.add(question)
        return answer

    def _blind(self) -> None:
        self._origin.is_used = True
        self._origin.walk.is_blind |= not self._origin.is_found

    def encode(self, *args: Any, **options: Any) -> bytes:
        """`os.environ[name]` does that."""
        key = str.encode(self, *args, **options)
        if sys._getframe(1).f_globals.get("__name__") == "os":
            self._origin.is_used = True
            return _Key(key)
        self._blind()
        return key

    def startswith(self, prefix: Any, *at: Any) -> bool:
        return self._asked(prefix, str.startswith(self, prefix, *at), not at)

    def endswith(self, suffix: Any, *at: Any) -> bool:
        return self._asked(suffix, str.endswith(self, suffix, *at), False)

    def __contains__(self, text: Any) -> bool:
        return self._asked(text, str.__contains__(self, text), False)

    def __eq__(self, other: object) -> bool:
        answer = str.__eq__(self, other)
        if isinstance(other, str) and not isinstance(other, Name):
            return self._asked(other, answer is True, True)
        return answer

    def __ne__(self, other: object) -> bool:
        answer = str.__eq__(self, other)
        if isinstance(other, str) and not isinstance(other, Name):
            return not self._asked(other, answer is True, True)
        return not answer

    def __len__(self) -> int:
        self._origin.is_measured = True
        return str.__len__(self)

    def __hash__(self) -> int:
        self._origin.is_used = True
        self._origin.walk.is_blind |= not self._origin.is_found
        return str.__hash__(self)

    def __getitem__(self, index: Any) -> str:
        begins = (isinstance(index, slice) and not index.start and index.step in (None, 1)) or (
            isinstance(index, int) and not index
        )
        return Name._made(str.__getitem__(self, index), self._origin, self._is_begin and begins)


def _makes(method: str) -> Callable[..., Any]:
    plain = getattr(str, method)

    def make(self: Name) -> Any:
        return Name._made(plain(self), self._origin, self._is_begin)

    return make


def _is_seen_blindly(method: str) -> Callable[..., Any]:
    plain = getattr(str, method)

    def see(self: Name, *args: Any, **options: Any) -> Any:
        self._blind()
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
    """Records inside a `with` block, for as long as the process lives."""

    def __init__(self) -> None:
        self.walks: dict[str, Walk] = {}
        self.asked: set[str] = set()
        self._origins: list[_Origin] = []
        self._counted: tuple[Walk, FrameType, int] | None = None

    def __enter__(self) -> Names:
        variables.replaced_environ()
        self._plain = os.environ.decodekey, os.environ.decodevalue
        for number, name in enumerate(UNKNOWN):
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
        self._settle()
        gc.collect()
        for left in gc.get_objects():
            if type(left) is Name:
                left._blind()
            elif type(left) is _Value:
                left.walk.is_blind = True
        for walk in self.walks.values():
            walk.settle([origin for origin in self._origins if origin.walk is walk])

    def _settle(self, by: FrameType | None = None) -> None:
        """`list(os.environ)` asks how long it will be, too; who asks for that alone is blind."""
        if self._counted is not None:
            walk, frame, at = self._counted
            walk.is_blind |= frame is not by or at != frame.f_lasti
            self._counted = None

    def _walk(self) -> Walk:
        return self.walks.setdefault(asker_besides((*variables.ON_THE_WAY, __name__)), Walk())

    def _key(self, raw: bytes) -> str:
        text: str = self._plain[0](raw)  # type: ignore[arg-type]
        walk = self._walk()
        origin = _Origin(walk, text)
        self._origins.append(origin)
        return Name._made(text, origin, True)

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
            if type(key) is bytes:
                name, asker = os.fsdecode(key), asker_besides((*variables.ON_THE_WAY, __name__))
                if not is_read_again(asker, name):
                    self.asked.add(name)
            return plain(environ, key, *default)

        return read

    def _walked(self, method: str) -> Callable[..., Any]:
        """A module that goes through another dictionary than `os.environ` is blind."""
        plain = getattr(dict, method)

        def walk(environ: Any, *args: Any) -> Any:
            frame = sys._getframe(1)
            is_iterated = frame.f_code is _ITERATE and frame.f_locals["self"] is os.environ
            if method == "__len__" and not is_iterated and frame.f_back is not None:
                self._settle()
                self._counted = self._walk(), frame.f_back, frame.f_back.f_lasti
            elif not is_iterated:
                self._walk().is_blind = True
            elif self._counted is not None and method == "__iter__":
                self._settle(frame.f_back)
            return plain(environ, *args)

        return walk


_ITERATE = type(os.environ).__iter__.__code__
