"""How many steps a regular expression takes on a text, counted and not timed.

A matcher that backtracks as CPython's `re` does, on the tree of `re._parser`, with each attempt to
match one character counted. CPython's own takes shortcuts that make it faster, not slower. Steps on
texts of two lengths say how the work grows; texts are made out of the pattern itself: what comes
before a repeat, the repeated part many times, and then what does not fit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Next = Callable[[int], bool]
Node = tuple[Any, Any]
_ENDS = ("\0", "\n", "\n!\n")
_ORDERS = ("a7A ", " \ta7A")
"""Characters that are taken first where several fit."""
_IGNORECASE, _MULTILINE, _DOTALL = map(int, (re.IGNORECASE, re.MULTILINE, re.DOTALL))
"""Numbers: `&` with a member of an enumeration is slow."""
_TRIED = "_/.:-\n!\"'%&=[]<>(){}#+,;@\0"


class TooManySteps(Exception):
    """The count went beyond its limit."""


class Counter:
    """Steps of one pattern on one text."""

    def __init__(self, pattern: re.Pattern[Any], text: str, limit: int) -> None:
        self.steps = 0
        self._limit, self._text, self._flags = limit, text, pattern.flags
        self._tree = list(_tree(pattern))

    def search(self) -> int:
        """From each place of the text until one matches; returns the steps."""
        for start in range(len(self._text) + 1):
            if self._sequence(self._tree, 0, start, lambda _: True):
                break
        return self.steps

    def match(self) -> int:
        """From the beginning alone, to the end of the text: as `fullmatch` does."""
        self._sequence(self._tree, 0, 0, lambda at: at == len(self._text))
        return self.steps

    def _sequence(self, nodes: Sequence[Node], first: int, at: int, then: Next) -> bool:
        if first == len(nodes):
            return then(at)
        return self._one(nodes[first], at, lambda end: self._sequence(nodes, first + 1, end, then))

    def _one(self, node: Node, at: int, then: Next) -> bool:
        self.steps += 1
        if self.steps > self._limit:
            raise TooManySteps
        name, given = node
        if _is_repeat(name):
            least, most, body = given
            nodes = list(body)
            if len(nodes) == 1 and _is_character(nodes[0]):
                return self._characters(name, least, most, nodes[0], at, then)
            return self._repeat(name == c.MIN_REPEAT, least, most, nodes, at, then)
        if name is c.SUBPATTERN:
            return self._sequence(list(given[3]), 0, at, then)
        if name is c.ATOMIC_GROUP:
            ends: list[int] = []

            def note(end: int) -> bool:
                ends.append(end)
                return True

            return self._sequence(list(given), 0, at, note) and then(ends[0])
        if name is c.BRANCH:
            return any(self._sequence(list(branch), 0, at, then) for branch in given[1])
        if name in (c.ASSERT, c.ASSERT_NOT):
            direction, body = given
            start = at if direction > 0 else max(0, at - 1)
            found = self._sequence(list(body), 0, start, lambda _: True)
            return then(at) if found == (name is c.ASSERT) else False
        if name is c.AT:
            return self._is_at(given, at) and then(at)
        return self._fits(node, at) and then(at + 1)

    def _characters(
        self, name: Any, least: int, most: Any, node: Node, at: int, then: Next
    ) -> bool:
        """The repeat of one character, as a loop: texts are longer than Python's stack."""
        end = at
        bound = len(self._text) if most is c.MAXREPEAT else at + most
        if name is c.MIN_REPEAT:
            while True:
                if end - at >= least and then(end):
                    return True
                self._count()
                if end >= bound or not self._fits(node, end):
                    return False
                end += 1
        while end < bound and self._fits(node, end):
            self._count()
            end += 1
        if name is c.POSSESSIVE_REPEAT:
            return end - at >= least and then(end)
        while end - at >= least:
            self._count()
            if then(end):
                return True
            end -= 1
        return False

    def _count(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            raise TooManySteps

    def _repeat(
        self, is_lazy: bool, least: int, most: Any, body: list[Node], at: int, then: Next
    ) -> bool:
        def more() -> bool:
            if most is not c.MAXREPEAT and most == 0:
                return False
            left = most if most is c.MAXREPEAT else most - 1
            return self._sequence(
                body,
                0,
                at,
                lambda end: (
                    end > at and self._repeat(is_lazy, max(0, least - 1), left, body, end, then)
                ),
            )

        if least > 0:
            return more()
        return (then(at) or more()) if is_lazy else (more() or then(at))

    def _is_at(self, where: Any, at: int) -> bool:
        text = self._text
        if where in (c.AT_BEGINNING, c.AT_BEGINNING_STRING):
            lines = where is c.AT_BEGINNING and self._flags & _MULTILINE
            return at == 0 or bool(lines and text[at - 1] == "\n")
        if where in (c.AT_END, c.AT_END_STRING):
            lines = where is c.AT_END and self._flags & _MULTILINE
            return at == len(text) or bool(lines and text[at] == "\n")
        sides = [0 <= i < len(text) and (text[i].isalnum() or text[i] == "_") for i in (at - 1, at)]
        return (sides[0] != sides[1]) == (where is c.AT_BOUNDARY)

    def _fits(self, node: Node, at: int) -> bool:
        return at < len(self._text) and fits(node, self._text[at], self._flags)


def _tree(pattern: re.Pattern[Any]) -> Any:
    flags = pattern.flags & ~(re.UNICODE if isinstance(pattern.pattern, bytes) else 0)
    return _parser.parse(pattern.pattern, flags)


def _is_character(node: Node) -> bool:
    return node[0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN)


def fits(node: Node, character: str, flags: int) -> bool:
    """Whether a node of one character matches one."""
    name, given = node
    both = {character, character.lower(), character.upper()} if flags & _IGNORECASE else {character}
    if name is c.ANY:
        return character != "\n" or bool(flags & _DOTALL)
    if name in (c.LITERAL, c.NOT_LITERAL):
        return bool((chr(given) in both) == (name is c.LITERAL))
    is_negated = bool(given) and given[0][0] is c.NEGATE
    found = any(_in(part, one) for part in given for one in both)
    return found != is_negated


def _in(part: Node, character: str) -> bool:
    name, given = part
    if name is c.LITERAL:
        return bool(ord(character) == given)
    if name is c.RANGE:
        return bool(given[0] <= ord(character) <= given[1])
    if name is c.CATEGORY:
        negated = "NOT" in str(given)
        kind = {"DIGIT": str.isdigit, "SPACE": str.isspace}.get(str(given).split("_")[-1])
        word = character.isalnum() or character == "_"
        return (kind(character) if kind else word) != negated
    return False


def texts(pattern: re.Pattern[Any], repeats: int) -> Iterator[str]:
    """Texts that make the pattern try a lot: each repeat pumped, then an end that does not fit."""
    sys.setrecursionlimit(200_000)
    ways = [_Ways(pattern.flags, order, inner) for order in _ORDERS for inner in (1, 3)]
    nodes = list(_tree(pattern))
    samples = [sample for way in ways for sample in way.pumped(nodes, repeats)]
    for sample in dict.fromkeys(samples):
        for end in _ENDS:
            yield sample + end


class _Ways:
    """Texts that match parts of a pattern."""

    def __init__(self, flags: int, order: str, inner: int) -> None:
        self._flags, self._inner = flags, inner
        self._tried = [*order, *_TRIED]

    def pumped(self, nodes: list[Node], repeats: int) -> Iterator[str]:
        """The sequence up to each of its repeats, with that one pumped."""
        before = ""
        for i, (name, given) in enumerate(nodes):
            for body in _bodies(name, given):
                if _is_repeat(name) and given[1] is c.MAXREPEAT:
                    for one in self._short(body):
                        yield before + one * repeats
                        yield before + one * repeats + self.shortest(nodes[i + 1 :])
                yield from (before + inner for inner in self.pumped(body, repeats))
            before += self.shortest([nodes[i]])
            yield before * repeats

    def _short(self, body: list[Node]) -> Iterator[str]:
        """Ways to match a repeated part."""
        if len(body) == 1 and _is_character(body[0]):
            yield from [one for one in self._tried if fits(body[0], one, self._flags)][:3]
            return
        if len(body) == 1:
            yield from map(self.shortest, _bodies(*body[0]))
        yield self.shortest(body)

    def shortest(self, nodes: Sequence[Node]) -> str:
        return "".join(map(self._of, nodes))

    def _of(self, node: Node) -> str:
        name, given = node
        if _is_character(node):
            literal = [chr(given)] if name is c.LITERAL else []
            every = (*literal, *self._tried, *map(chr, range(256)))
            return next((one for one in every if fits(node, one, self._flags)), "")
        if _is_repeat(name):
            least = self._inner if given[1] is c.MAXREPEAT and given[0] else given[0]
            found: str = self.shortest(list(given[2])) * max(least, given[0])
            return found
        return "".join(self.shortest(body) for body in _bodies(name, given)[:1])


def _is_repeat(name: Any) -> bool:
    return name in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)


def _bodies(name: Any, given: Any) -> list[list[Node]]:
    """The sequences in a node: of a repeat or a group one, of a choice each branch."""
    if _is_repeat(name):
        return [list(given[2])]
    if name is c.SUBPATTERN:
        return [list(given[3])]
    if name is c.ATOMIC_GROUP:
        return [list(given)]
    return [list(branch) for branch in given[1]] if name is c.BRANCH else []
