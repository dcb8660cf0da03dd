"""The named policies: their steps, from loading to the worker's exit.

Owns the table. A policy is data; `gc_settings`, `steps`, `child` and `exit` carry its steps out.
The first three rows are published designs (Instagram, December 2017), for users to compare against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from pasture import off
from pasture.errors import UnknownPolicy, guess
from pasture.sealing.steps import HEAP_STEPS, NATIVE_STEPS

LoadingStep = Literal["gc-off", "huge-arenas"]
"""Steps in the parent, before the application is imported."""

PrepareStep = Literal["warm-up", "resolve-imports", "close-connections"]
"""Steps in the parent, once the application is loaded. They run code of the application."""

ChildStep = Literal["gc-on", "full-out-of-line"]
"""Steps in each child, right after the fork."""

ExitStep = Literal["flush-files", "leave"]
"""Steps in each child, as its last atexit function. Use "flush-files" only in policies that freeze:
finding open files takes a reference to every object that is not frozen, which unshares its page."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A named list of steps, in the order in which they are taken.

    Attributes:
        choose: when to use it, in a line.
        loading: steps before the application is imported.
        prepare: steps once it is loaded.
        heap: steps right before the fork, in the parent: names of `steps.HEAP_STEPS`.
        in_child: steps of each child right after the fork.
        at_exit: steps of each child at its end.
        refork: number of requests, by generation, after which a worker becomes the next parent;
            see docs/refork.md.

    Raises:
        ValueError: a step is unknown.
    """

    name: str
    choose: str = ""
    loading: tuple[LoadingStep, ...] = ()
    prepare: tuple[PrepareStep, ...] = ("close-connections",)
    heap: tuple[str, ...] = ()
    in_child: tuple[ChildStep, ...] = ()
    at_exit: tuple[ExitStep, ...] = ()
    refork: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for steps, known in (
            (self.loading, get_args(LoadingStep)),
            (self.prepare, get_args(PrepareStep)),
            (self.heap, HEAP_STEPS),
            (self.in_child, get_args(ChildStep)),
            (self.at_exit, get_args(ExitStep)),
        ):
            unknown = set(steps).difference(known)
            if unknown:
                raise ValueError(f"no such step: {', '.join(sorted(unknown))}")

    @property
    def needs_native(self) -> bool:
        """Whether a heap step changes the interpreter's memory through the extension."""
        return not NATIVE_STEPS.isdisjoint(self.heap)

    @property
    def warms_up(self) -> bool:
        """Whether it has a warm-up: requests are served before the fork."""
        return "warm-up" in self.prepare


_TABLE: tuple[Policy, ...] = (
    Policy("stock", "the reference for the rest: the server preloads, no more"),
    Policy(
        "freeze",
        "where nothing may be installed: `gc.freeze()` is two lines",
        loading=("gc-off",),
        heap=("freeze",),
        in_child=("gc-on",),
    ),
    Policy(
        "warm-freeze",
        "the same after a warm-up: the best without an extension",
        prepare=("warm-up", "close-connections"),
        heap=("collect", "freeze"),
        in_child=("gc-on",),
    ),
    Policy(
        "seal",
        "in most cases: saves most; give it requests for its warm-up",
        loading=("huge-arenas",),
        prepare=("warm-up", "resolve-imports", "close-connections"),
        heap=tuple(step for step in HEAP_STEPS if step != "trace-code"),
        in_child=("gc-on", "full-out-of-line"),
        at_exit=("flush-files", "leave"),
    ),
)

_TABLE += (
    dataclasses.replace(
        _TABLE[-1],
        name="refork",
        choose="gunicorn without a list of requests: serving is the warm-up",
        prepare=("resolve-imports", "close-connections"),
        heap=tuple(step for step in HEAP_STEPS if step != "gather-code"),
        refork=(50, 500, 2000),
    ),
)

POLICIES: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in _TABLE})
"""Every policy by its name, in the order in which they are compared."""

DEFAULT_POLICY = "seal"


def traced(policy: Policy) -> Policy:
    """The policy, with a step by which children show code that ran and was not gathered."""
    if "gather-code" not in policy.heap:
        return policy
    at = policy.heap.index("gather-code") + 1
    return dataclasses.replace(policy, heap=(*policy.heap[:at], "trace-code", *policy.heap[at:]))


def find_policy(policy: str | Policy | None) -> Policy:
    """Look up a policy by its name. None is the default; a policy is returned unchanged.

    Raises:
        UnknownPolicy: there is no policy of that name; the hint names the nearest and all others.
    """
    if isinstance(policy, Policy):
        return policy
    name = DEFAULT_POLICY if policy is None else policy
    if name in POLICIES:
        return POLICIES[name]
    raise UnknownPolicy(
        f"no policy is called {name!r}",
        hint="PASTURE=off in the environment switches pasture off"
        if name.lower() in off.WORDS
        else f"{guess(name, POLICIES)}known are {', '.join(POLICIES)}",
    )
