"""The same load once more, in a process that is thrown away and differs in all that a process is.

The outcome of both says what a load does to each process, and which variables matter to modules
that went through all (`process_state`, `names`). The process is forked before the load that counts,
and loads after it: what that has compiled and cached is there.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pasture_image.inside import process_state
from pasture_image.inside.apart import Apart
from pasture_image.inside.process_state import State

_MIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the second load has shown.

    Attributes:
        states: of its process, before and after.
        generator: state of `random` after it.
        walks: how variables begin and what they contain that matter to a module, by its name. Of
            others all matter.
        asked: variables that were read by names that came from no walk.
        set_in_c: variables that `os.environ` knows nothing of.
    """

    states: tuple[State, State]
    generator: Any
    walks: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    set_in_c: dict[str, str] = field(default_factory=dict)


class Trial:
    """A process that waits until it is wanted."""

    def __init__(self, load: Callable[[], object], environ: int, close: Iterable[int]) -> None:
        """Fork it.

        Args:
            load: what it does.
            environ: descriptor of the environment that it has (`environment`).
            close: descriptors that are not for it.
        """
        self._apart = Apart(lambda: _report(load), environ, close, waits=True)

    def outcome(self, load_s: float) -> Outcome | None:
        """Let it load; None if it cannot.

        Args:
            load_s: how long the first load took.
        """
        data = self._apart.result(_MIN_TIMEOUT_S + 5 * load_s)
        return Outcome(**json.loads(data)) if data else None

    def end(self) -> None:
        """It is not wanted."""
        self._apart.end()


def _report(load: Callable[[], object]) -> bytes:
    with open(os.devnull, "r+b") as null:  # noqa: PTH123 - less is loaded into the image
        for number in (0, 1, 2):
            os.dup2(null.fileno(), number)
    from pasture_image.inside.names import Names  # not in the image, as all that is only used here

    process_state.differ()
    before = process_state.read()
    with Names() as names:
        held = _in_c()
        load()
        after = process_state.read()
        generator = random.getstate()
        set_in_c = {n: v for n, v in _in_c().items() if held.get(n) != v and os.environ.get(n) != v}
    walks = {
        module: (sorted(walk.begins), sorted(walk.contains))
        for module, walk in names.walks.items()
        if not walk.is_blind and "" not in walk.begins | walk.contains
    }
    found = Outcome((before, after), generator, walks, sorted(names.asked), set_in_c)
    return json.dumps({name: getattr(found, name) for name in Outcome.__slots__}).encode()


def _in_c() -> dict[str, str]:
    """The environment as code in C has it, but for what names this process."""
    import ctypes  # not in the image

    pairs: dict[str, str] = {}
    with suppress(ValueError):  # a C library that does not export it
        strings = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        for pair in iter(iter(strings).__next__, None):
            name, _, value = os.fsdecode(pair).partition("=")
            pairs[name] = value
    own = str(os.getpid())
    return {name: value for name, value in pairs.items() if own not in name and own not in value}


def again_as_seeded(outcome: Outcome | None) -> Any:
    """The state of `random`, if modules have seeded it: both loads came to the same. Else None."""
    state = random.getstate()
    same = outcome is not None and json.loads(json.dumps(state)) == outcome.generator
    return state if same and "random" in sys.modules else None
