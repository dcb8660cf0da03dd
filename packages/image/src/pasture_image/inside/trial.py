"""The same load in a process that is thrown away: with other arguments, and unheard-of variables.

The outcome says which variables and arguments matter to modules (`names`, `arguments`). The process
is forked before the load that counts, and loads after it: what that has compiled is there.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pasture_image.inside.apart import Apart
from pasture_image.inside.begin import PROCESSES


class Outcome(
    namedtuple("Outcome", "generator keys walks asked set_in_c readers questions of_path")
):
    """What the second load has shown.

    Attributes:
        generator: state of `random` after it; `keys`: those of processes.
        walks: how variables begin and what they contain that matter to a module, by its name. Of
            others all matter.
        asked: variables that were read by names that came from no walk.
        set_in_c: variables that `os.environ` knows nothing of.
        readers: modules that have read the arguments.
        questions: what modules have asked of them else.
        of_path: modules that have asked for the first folder of the search path.
    """

    __slots__ = ()


def outcome(trial: Apart, load_s: float) -> Outcome:
    """Let it load.

    Args:
        load_s: how long the first load took.

    Raises:
        ImageFailed: it cannot: what differs between programs is not known.
    """
    return Outcome(*trial.found(load_s, "the modules cannot be loaded twice"))


def keys() -> dict[str, bytes]:
    """Of libraries of processes: drawn when they are loaded, or set."""
    names = [name for name in PROCESSES if f"{name}.process" in sys.modules]
    return {n: bytes(sys.modules[f"{n}.process"].current_process().authkey) for n in names}


def generator() -> Any:
    """The state of `random`; None where no module has loaded that."""
    return getattr(sys.modules.get("random"), "getstate", lambda: None)()


def reported(load: Callable[[], object]) -> bytes:
    """What a load shows; or why it failed, a text. In a process that waits until it is wanted."""
    try:
        return _report(load)
    except BaseException as error:
        return marshal.dumps(f"{type(error).__name__}: {error}")


def _report(load: Callable[[], object]) -> bytes:
    from pasture_image.inside import arguments, kept
    from pasture_image.inside.names import MARKS, Names

    null = os.open(os.devnull, os.O_WRONLY)  # nothing that it prints is seen
    for number in (1, 2):
        os.dup2(null, number)
    arguments.stand_in()
    with Names() as names:
        held = in_c()
        load()
        seeded = generator()
        set_in_c = {n: v for n, v in in_c().items() if held.get(n) != v and os.environ.get(n) != v}
    texts = [(one.lower(), owner) for one, owner in kept.held() if type(one) is str]
    are_kept = any(mark in text for text, _ in texts for mark in MARKS)
    readers = arguments.readers
    for text, owner in texts:
        if "zqprogram" in text or "zqargument" in text:
            readers.add(owner.rpartition(".")[0])
    walks = {
        module: (sorted(walk.begins), sorted(walk.contains))
        for module, walk in names.walks.items()
        if not are_kept and not walk.is_blind and "" not in walk.begins | walk.contains
    }
    asked = sorted(names.asked), set_in_c, sorted(readers), sorted(arguments.questions)
    return marshal.dumps((seeded, keys(), walks, *asked, sorted(arguments.of_path)))


def in_c() -> dict[str, str]:
    """The environment as code in C has it, but for what names this process."""
    import ctypes

    pairs: dict[str, str] = {}
    with suppress(ValueError):  # a C library that does not export it
        strings = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        for pair in iter(iter(strings).__next__, None):
            name, _, value = os.fsdecode(pair).partition("=")
            pairs[name] = value
    own = str(os.getpid())
    return {name: value for name, value in pairs.items() if own not in name and own not in value}
