"""The same load in a process that is thrown away: in another folder, with other arguments.

The outcome of both says which variables and arguments matter to modules (`names`, `arguments`), and
which values are each process's own (`kept`). The process is forked before the load that counts, and
loads after it: what that has compiled and cached is there.
"""

from __future__ import annotations

import json
import os
import posix
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pasture.errors import ImageFailed
from pasture_image.inside import memory, program
from pasture_image.inside.apart import Apart
from pasture_image.inside.arguments import Arguments, stand_in
from pasture_image.inside.notes import Note

_MIN_TIMEOUT_S = 60.0
_HINT = "build again, or do not preload what has failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the second load has shown.

    Attributes:
        generator: state of `random` after it.
        walks: how variables begin and what they contain that matter to a module, by its name. Of
            others all matter.
        asked: variables that were read by names that came from no walk.
        set_in_c: variables that `os.environ` knows nothing of.
        readers: modules that have read the arguments.
        questions: what others have asked of them; askers: those.
    """

    generator: Any
    walks: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    set_in_c: dict[str, str] = field(default_factory=dict)
    readers: Sequence[str] = ()
    questions: Sequence[tuple[str, bool]] = ()
    askers: Sequence[str] = ()

    def again_as_seeded(self) -> Any:
        """The state of `random`, if modules have seeded it: both loads came to the same."""
        state = random.getstate()
        same = json.loads(json.dumps(state)) == self.generator
        return state if same and "random" in sys.modules else None


class Trial:
    """A process that waits until it is wanted."""

    def __init__(self, load: Callable[[], object], environ: int, close: Iterable[int]) -> None:
        """Fork it.

        Args:
            load: what it does.
            environ: descriptor of the environment that it has (`environment`).
            close: descriptors that are not for it.
        """
        self._has_ended = False
        self._kept = memory.create("pasture-kept")
        self._given = environ, tuple(close)
        self._apart = Apart(lambda: _reported(load, self._kept), *self._given, waits=True)

    def outcome(self, load_s: float) -> Outcome:
        """Let it load.

        Args:
            load_s: how long the first load took.

        Raises:
            ImageFailed: it cannot: what differs between programs is not known.
        """
        self._has_ended = True
        data = self._apart.result(_MIN_TIMEOUT_S + 5 * load_s)
        if data is None or not data.startswith(b"{"):
            too_long = "it takes too long"
            why = too_long if data is None else data.decode("utf-8", "replace") or "see above"
            raise ImageFailed(f"the modules cannot be loaded twice: {why}", hint=_HINT)
        return Outcome(**json.loads(data))

    def compared(self, record: int, load_s: float) -> list[Note]:
        """What modules keep of their process; compared in a process of its own.

        Args:
            record: descriptor of the record of what the load that counts has looked at.
            load_s: how long it took.

        Raises:
            ImageFailed: they cannot be compared.
        """

        def compare() -> bytes:
            from pasture_image.inside import kept  # not in the image
            from pasture_image.inside import record as recorded

            own, second = kept.values(), kept.read(self._kept)
            differ = kept.differing(own, second[-1], second[-2])
            notes = kept.notes(own, second, differ, recorded.made(record))
            return json.dumps(notes + kept.of_host(own)).encode()

        environ, close = self._given
        apart = Apart(compare, environ, [number for number in close if number != record])
        data = apart.result(_MIN_TIMEOUT_S + 5 * load_s)
        if not data:
            why = "it takes too long" if data is None else "see above"
            raise ImageFailed(f"what differs from load to load is not known: {why}", hint=_HINT)
        return [Note(*note) for note in json.loads(data)]

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._has_ended:
            self._apart.end()
        posix.close(self._kept)


def _reported(load: Callable[[], object], file: int) -> bytes:
    try:
        return _report(load, file)
    except BaseException as error:
        return f"{type(error).__name__}: {error}".encode("utf-8", "replace")


def _report(load: Callable[[], object], file: int) -> bytes:
    from pasture_image.inside import kept  # not in the image, as all that is only used here
    from pasture_image.inside.names import MARKS, Names

    arguments = _differ()
    with Names() as names:
        held, folder = in_c(), os.getcwd()  # noqa: PTH109
        load()
        generator = random.getstate()
        set_in_c = {n: v for n, v in in_c().items() if held.get(n) != v and os.environ.get(n) != v}
        are_kept = kept.write(file, MARKS, folder)
    walks = {
        module: (sorted(walk.begins), sorted(walk.contains))
        for module, walk in names.walks.items()
        if not are_kept and not walk.is_blind and "" not in walk.begins | walk.contains
    }
    asked = (arguments.readers(), arguments.questions(), arguments.askers())
    found = Outcome(generator, walks, sorted(names.asked), set_in_c, *asked)
    return json.dumps({name: getattr(found, name) for name in Outcome.__slots__}).encode()


def _differ() -> Arguments:
    """Have other arguments and another folder; nothing that it prints is seen."""
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(null)
    os.chdir(f"{(here := os.getcwd())}-2/{here.rpartition('/')[2]}-2")  # noqa: PTH109 - as made
    program.add_folder(os.getcwd())  # noqa: PTH109
    return stand_in()


def in_c() -> dict[str, str]:
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
