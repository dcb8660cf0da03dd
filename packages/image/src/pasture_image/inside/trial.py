"""The same load once more, in a process that is thrown away and differs in all that a process is.

The outcome of both says what a load does to each process, and which variables matter to modules
that went through all (`process_state`, `names`). The process is forked before the load that counts,
and loads after it: what that has compiled and cached is there.
"""

from __future__ import annotations

import json
import os
import posix
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pasture_image.inside import memory, printed, process_state, streams, switches
from pasture_image.inside.apart import Apart
from pasture_image.inside.arguments import Arguments, stand_in
from pasture_image.inside.process_state import State

_MIN_TIMEOUT_S = 60.0
_TIMEOUT_S = 5.0
_END = b"\0zqend\0"


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
        readers: modules that have read the arguments.
        questions: what others have asked of them; askers: those.
        switches: modules that have read an option (`switches`).
        printed: what modules have printed.
    """

    states: tuple[State, State]
    generator: Any
    walks: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    set_in_c: dict[str, str] = field(default_factory=dict)
    readers: Sequence[str] = ()
    questions: Sequence[tuple[str, str, bool]] = ()
    askers: Sequence[str] = ()
    switches: Sequence[str] = ()
    printed: Sequence[Sequence[str]] = ()


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
        self._apart = Apart(lambda: _reported(load, self._kept), environ, close, waits=True)

    @property
    def values(self) -> int:
        """Descriptor of the values after it (`kept`)."""
        return self._kept

    def outcome(self, load_s: float) -> Outcome | None:
        """Let it load; None if it cannot, which standard error has then.

        Args:
            load_s: how long the first load took.
        """
        self._has_ended = True
        data = self._apart.result(_MIN_TIMEOUT_S + 5 * load_s)
        if data is None or not data.startswith(b"{"):
            too_long = "it takes too long, or waits for a lock that the first load keeps"
            why = too_long if data is None else data.decode("utf-8", "replace") or "see above"
            print(f"the modules cannot be loaded twice: {why}", file=sys.stderr, flush=True)
            return None
        return Outcome(**json.loads(data))

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
    before = process_state.read()
    with Names() as names:
        held = in_c()
        load()
        after = process_state.read()
        generator = random.getstate()
        set_in_c = {n: v for n, v in in_c().items() if held.get(n) != v and os.environ.get(n) != v}
        are_kept = kept.write(file, MARKS)
    walks = {
        module: (sorted(walk.begins), sorted(walk.contains))
        for module, walk in names.walks.items()
        if not are_kept and not walk.is_blind and "" not in walk.begins | walk.contains
    }
    asked = (arguments.readers(), arguments.questions(), arguments.askers(), switches.read())
    found = Outcome((before, after), generator, walks, sorted(names.asked), set_in_c, *asked)
    pairs = {name: getattr(found, name) for name in Outcome.__slots__}
    return json.dumps({**pairs, "printed": printed.found}).encode()


def _differ() -> Arguments:
    """Have other terminals, other arguments, another time zone and another state."""
    with suppress(OSError):  # there is no /dev/pts
        printed.recorder = _Terminals()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.chdir(f"{os.getcwd()}-2")  # noqa: PTH109 - `build.process` has made it
    process_state.differ()
    switches.stand_in()
    return stand_in()


class _Terminals:
    """Take what is printed to them, in the place of the standard streams."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._taken = [0, 0]
        for number in (1, 2):
            master, terminal = os.openpty()
            self._files.append(memory.create("pasture-terminal"))
            if os.fork() == 0:  # a thread would wait for code in C that prints and has the GIL
                os.close(terminal)
                _drain(master, self._files[-1])
            os.close(master)
            os.dup2(terminal, number)
            os.close(terminal)
        os.dup2(1, 0)

    def take(self, module: str) -> None:
        """Note what was printed since the last call."""
        streams.flush()
        for number, file in enumerate(self._files, 1):
            with suppress(OSError):  # it is closed
                os.write(number, _END)
            before, end = self._taken[number - 1], time.monotonic() + _TIMEOUT_S
            while _END not in (read := printed.since(file, before)) and time.monotonic() < end:
                time.sleep(0.001)
            data, end_of_module, _ = read.partition(_END)
            self._taken[number - 1] = before + len(data) + len(end_of_module)
            printed.note(module, number, data.replace(b"\r\n", b"\n"))  # as terminals have it


def _drain(terminal: int, file: int) -> NoReturn:
    """In a process that ends with the terminal's last other user."""
    with suppress(OSError):
        while data := os.read(terminal, 1 << 16):
            os.write(file, data)
    os._exit(0)


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


def again_as_seeded(outcome: Outcome | None) -> Any:
    """The state of `random`, if modules have seeded it: both loads came to the same. Else None."""
    state = random.getstate()
    same = outcome is not None and json.loads(json.dumps(state)) == outcome.generator
    return state if same and "random" in sys.modules else None
