"""Which zygotes there are, and which one is right for a request: pure bookkeeping.

A zygote is made on top of another one, down to one without any module for each interpreter and
its options. Invariant: a zygote that is ready stands on zygotes that are, in the states that it
was made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pasture_zygote.orders import Built
from pasture_zygote.pace import Pace

_MAX_REASONS = 100
_OTHER_REASONS = "other reasons"
_MAX_SHOWN = 80

State = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a zygote is to be.

    Attributes:
        name: by which it is asked for.
        base: name of the zygote that it is made on top of; "" for none.
        preload: modules that it loads beside.
        python: path of the interpreter.
        options: of the interpreter.
        environ: the environment that it is for.
        rehearse: path of a program that does what its programs will do; "" for none.
    """

    name: str
    base: str
    preload: tuple[str, ...]
    python: str
    options: tuple[str, ...]
    environ: Mapping[str, str]
    rehearse: str = ""


@dataclass(slots=True)
class Zygote:
    """A zygote, and what has become of it.

    Attributes:
        plan: what it is to be.
        state: whether it can be handed out.
        built: of the last time it was made.
        manifest: descriptor; -1 while there is none.
        images: descriptors of the files with pages, the root's first.
        served: requests that got it.
        refused: requests that named it or fitted, by the reason why they did not get it.
        times: how often it has been made.
        pace: when it may be made again.
        began_s: when what makes it was started, by `time.time`.
        rewritten: files that were changed while it was loaded, the latest time.
        made_of: `built` of the latest time that this was no failure.
        failed_s: when it failed, by `time.monotonic`.
    """

    plan: Plan
    state: State = "waiting"
    built: Built = field(default_factory=Built)
    manifest: int = -1
    images: tuple[int, ...] = ()
    served: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    times: int = 0
    pace: Pace = field(default_factory=Pace)
    began_s: float = 0.0
    rewritten: frozenset[str] = frozenset()
    made_of: Built = field(default_factory=Built)
    failed_s: float = 0.0

    @property
    def top_level(self) -> frozenset[str]:
        """Names of modules that are loaded, up to the first dot."""
        return frozenset(name.partition(".")[0] for name in self.built.modules)

    def refuse(self, reason: str) -> None:
        """Count a request that did not get it."""
        count_reason(self.refused, reason)


def count_reason(counts: Counter[str], reason: str) -> None:
    """Count why a request went without a zygote: programs choose what is in a reason."""
    if reason not in counts and len(counts) >= _MAX_REASONS:
        reason = _OTHER_REASONS
    counts[reason] += 1


def bare_name(python: str, options: Sequence[str]) -> str:
    """The name of the zygote without modules; no user can give it."""
    return "\x1f".join(("bare", python, *options))


class Tree:
    """All zygotes of a server, by name."""

    def __init__(self) -> None:
        self.zygotes: dict[str, Zygote] = {}
        self.refused: Counter[str] = Counter()
        """Requests that fitted no zygote, by reason."""
        self.routes: dict[tuple[str, tuple[str, ...]], dict[frozenset[str], str]] = {}
        """By interpreter and its options: the zygote for programs that import certain names."""

    def add(self, plan: Plan) -> Zygote:
        """Put a zygote in, or another in the place of one of that name."""
        self.zygotes[plan.name] = Zygote(plan)
        return self.zygotes[plan.name]

    def above(self, name: str) -> list[Zygote]:
        """The zygotes that are made on top of one, the nearest first."""
        found: list[Zygote] = []
        left = [name]
        while left:
            base = left.pop(0)
            children = [z for z in self.zygotes.values() if z.plan.base == base]
            found += children
            left += [child.plan.name for child in children]
        return found

    def route(self, python: str, options: Sequence[str], routes: Mapping[str, str]) -> None:
        """Send programs to zygotes, in the place of all earlier routes.

        Args:
            python: path of the interpreter.
            options: of the interpreter.
            routes: name of a zygote, "" for the one without modules, by what programs import, with
                commas between the names.
        """
        bare = bare_name(python, options)
        self.routes[python, tuple(options)] = {
            frozenset(filter(None, text.split(","))): name or bare for text, name in routes.items()
        }

    def buildable(self, now_s: float) -> Iterator[Zygote]:
        """Those that wait for nothing but to be made."""
        for zygote in self.zygotes.values():
            base = self.zygotes.get(zygote.plan.base)
            if zygote.state == "waiting" and (base is None or base.state == "ready"):
                if zygote.pace.due_s <= now_s:
                    yield zygote

    def stranded(self) -> Iterator[tuple[Zygote, Zygote]]:
        """Those that wait for one that has failed, with that one."""
        for zygote in self.zygotes.values():
            base = self.zygotes.get(zygote.plan.base)
            if zygote.state == "waiting" and base is not None and base.state == "failed":
                yield zygote, base

    def failed_for(self, name: str, python: str) -> list[Zygote]:
        """Those without which a request goes that has failed, or whose base has.

        Of a tree the lowest that has failed: the others stand on it.
        """
        found = {}
        for zygote in self.zygotes.values():
            if zygote.plan.python == python and (not name or zygote.plan.name == name):
                lowest = zygote
                while (base := self.zygotes.get(lowest.plan.base)) and base.state == "failed":
                    lowest = base
                if lowest.state == "failed":
                    found[lowest.plan.name] = lowest
        return list(found.values())

    def choose(
        self, name: str, python: str, options: Sequence[str], imports: Iterable[str]
    ) -> Zygote | str:
        """The zygote for a request.

        Args:
            name: that was asked for; "" for the one that fits best.
            python: the interpreter that would run otherwise.
            options: of the interpreter.
            imports: top-level names that the program imports.

        Returns:
            The zygote, or why there is none.
        """
        if name:
            zygote = self.zygotes.get(name)
            if zygote is None:
                return f"no zygote is called {name}"
            if zygote.plan.python != python:
                return f"the zygote {name} is of another interpreter"
            return zygote if zygote.state == "ready" else f"the zygote {name} is not ready"
        fitting = [
            zygote
            for zygote in self.zygotes.values()
            if zygote.plan.python == python and zygote.plan.options == tuple(options)
        ]
        ready = [zygote for zygote in fitting if zygote.state == "ready"]
        if not ready:
            if fitting:
                return "no zygote is ready"
            if all(zygote.plan.python != python for zygote in self.zygotes.values()):
                return "no zygote for this interpreter"
            return f"no zygote for these options: {' '.join(options)[:_MAX_SHOWN] or 'none'}"
        wanted = frozenset(imports)
        route = self.routes.get((python, tuple(options)), {}).get(wanted)
        routed = [zygote for zygote in ready if zygote.plan.name == route]
        if routed:
            return routed[0]
        return max(ready, key=lambda z: (len(wanted & z.top_level), -len(z.built.modules)))
