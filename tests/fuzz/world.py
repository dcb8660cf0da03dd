"""What the random program holds, beside a shadow of what it must find there.

A node is a token at the end of a chain of holders, any kinds of objects one in the other. The
shadow knows the way to the token, its number and identity, and which nodes it links to. The
invariant that `check` proves: whatever the roots lead to by the shadow's account is there, is
the same object, has not been finalized, and its weak reference works. `lost_garbage` names
what should be gone.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Getter = Callable[[Any], Any]

finalized: Counter[int] = Counter()
rescued: list[Any] = []


class Broken(AssertionError):
    """The heap is not what the shadow says."""


class Token:
    """Known by its number. Slots only; see `PlainToken`."""

    __slots__ = ("__weakref__", "back", "links", "number", "words")

    def __init__(self, number: int) -> None:
        self.number = number
        self.links: list[Any] = []
        self.words = f"token {number}"


class PlainToken(Token):
    """Inline values behind the slots of its base."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.mine = [number]


class FinalizedToken(PlainToken):
    def __del__(self) -> None:
        finalized[self.number] += 1


class FinalizedSlotToken(Token):
    __slots__ = ()

    def __del__(self) -> None:
        finalized[self.number] += 1


class RaisingToken(FinalizedToken):
    def __del__(self) -> None:
        super().__del__()
        raise ValueError("a finalizer that raises")


class RescuedToken(FinalizedToken):
    def __del__(self) -> None:
        super().__del__()
        rescued.append(self)


class LitteringToken(FinalizedToken):
    def __del__(self) -> None:
        super().__del__()
        self.links.clear()
        litter: list[Any] = [[] for _ in range(50)]
        litter.append(litter)


class ActingToken(FinalizedToken):
    """Its finalizer does what the program has set: it collects, seals or forks."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __del__(self) -> None:
        super().__del__()
        type(self).act()


TOKENS: tuple[type[Token], ...] = (
    Token,
    PlainToken,
    FinalizedToken,
    FinalizedSlotToken,
    RaisingToken,
    RescuedToken,
    LitteringToken,
    ActingToken,
)


@dataclass(slots=True)
class Node:
    """The shadow of a token.

    Attributes:
        path: from the outermost holder to the token.
        stays: it need not be found when it is garbage: it was sealed, say.
        frozen: only a collection of frozen objects finds it.
    """

    number: int
    ident: int
    kind: str
    path: tuple[Getter, ...]
    observer: weakref.ref[Token]
    links: list[int] = field(default_factory=list)
    stays: bool = False
    frozen: bool = False

    def token_in(self, outer: Any) -> Any:
        for get in self.path:
            outer = get(outer)
        return outer

    def examine(self, token: Any) -> None:
        """Raises `Broken` if it is not this node's token, unharmed."""
        if id(token) != self.ident or token.number != self.number:
            raise Broken(f"node {self.number} ({self.kind}) holds another object: {token!r}")
        if token.words != f"token {self.number}":
            raise Broken(f"node {self.number} ({self.kind}) holds {token.words!r}")
        if isinstance(token, PlainToken) and token.mine != [self.number]:
            raise Broken(f"node {self.number} ({self.kind}) has lost its values")
        if self.observer() is not token:
            raise Broken(f"node {self.number} ({self.kind}): its weak reference is gone")
        if finalized[self.number] and not isinstance(token, RescuedToken):
            raise Broken(f"node {self.number} ({self.kind}) was finalized and is reachable")


class World:
    """All nodes, and those that the program itself holds.

    Attributes:
        roots: number to the outermost holder.
        extras: anything else that is kept, with a function that raises `Broken` if it is not
            as it was.
        crowded: other threads run, not at a known place: a child of a fork might wait for them.
        limited: no thread is started, since CPython waits for ever for one that dies of a
            MemoryError as it starts; and a MemoryError of the program's own is no failure.
        steady: it may be checked; false in the middle of its own changes, where finalizers run.
    """

    def __init__(self) -> None:
        self.steady = False
        self.limited = False
        self.crowded = False
        self.nodes: dict[int, Node] = {}
        self.roots: dict[int, Any] = {}
        self.extras: list[tuple[Any, Callable[[Any], bool]]] = []
        self.deaths: Counter[int] = Counter()

    def add(self, token: Token, outer: Any, path: tuple[Getter, ...], kind: str) -> None:
        number = token.number
        observer = weakref.ref(token, lambda _: self.deaths.update((number,)))
        node = Node(number, id(token), kind, path, observer)
        self.nodes[number] = node
        self.roots[number] = outer

    def note_sealed(self) -> None:
        """What is alive now may stay for ever."""
        for node in self.nodes.values():
            node.stays = node.stays or node.observer() is not None

    def note_frozen(self, frozen: bool) -> None:
        for node in self.nodes.values():
            node.frozen = frozen

    def outer_of(self, number: int) -> Any:
        """The outermost holder of a node that the roots lead to."""
        return self._walk()[number]

    def reachable(self) -> list[int]:
        return list(self._walk())

    def _walk(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        pending = list(self.roots.items())
        while pending:
            number, outer = pending.pop()
            if number not in found:
                found[number] = outer
                pending += self._follow(self.nodes[number], outer)
        return found

    def _follow(self, node: Node, outer: Any) -> Iterable[tuple[int, Any]]:
        token = node.token_in(outer)
        node.examine(token)
        if len(token.links) != len(node.links):
            raise Broken(f"node {node.number} ({node.kind}) has lost links")
        return zip(node.links, token.links, strict=True)

    def check(self) -> None:
        """Raises `Broken` if what must be there is not."""
        for number in self._walk():
            if self.deaths[number]:
                raise Broken(f"node {number} was reported dead and is reachable")
        # In one call that runs no Python code: a finalizer changes it while tuples are made.
        counts = dict.copy(finalized)
        twice = [number for number, times in counts.items() if times > 1 and number >= 0]
        if twice:
            raise Broken(f"finalized more than once: {twice}")
        for extra, is_right in self.extras:
            if not is_right(extra):
                raise Broken(f"a {type(extra).__name__} has other contents")

    def lost_garbage(self, with_frozen: bool) -> list[Node]:
        """Nodes that a full collection which has just been run should have found."""
        for token in rescued:
            self.nodes[token.number].stays = True
        excused = [n for n in self.nodes.values() if n.stays or (n.frozen and not with_frozen)]
        alive = set(self.reachable())
        while excused:
            node = excused.pop()
            if node.number not in alive:
                alive.add(node.number)
                excused += [self.nodes[number] for number in node.links]
        return [n for n in self.nodes.values() if n.number not in alive and n.observer()]
