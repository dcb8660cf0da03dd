"""What an import changes of its process that is not in memory: umask, limits, directory, priority.

A copy of the memory has none of it, so each program gets the change again. Owns reading that state,
and which changes mean the same in each process: those that two loads have made which began with
different states (`trial`). Any other change is named, and no image is made.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pasture.interpreter import native

State = dict[str, Any]
"""Values that JSON has, by the words for them."""

_LIMITS = {f"the limit {name[7:]}": getattr(resource, name)
           for name in dir(resource) if name.startswith("RLIMIT_")}  # fmt: skip
_FILES = {
    "the process's name": "comm",
    "its timer slack": "timerslack_ns",
    "its score for the OOM killer": "oom_score_adj",
    "its filter for core dumps": "coredump_filter",
}
_OTHERS = {
    **{"its user": "Uid", "its group": "Gid", "its groups": "Groups", "its filter": "Seccomp"},
    **{"its capabilities": "CapEff", "its bounding set": "CapBnd", "new privileges": "NoNewPrivs"},
    **{"its memory nodes": "Mems_allowed", "huge pages": "THP_enabled"},
}
"""Fields of proc_pid_status(5) that no program gets again."""
_HARD, _OWN = "hard", "own"
"""In the place of a limit: the hard one, and what the program has."""
_CLOCKS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_MANY, _SMALL = 1 << 60, 100


def read() -> State:
    """Of this process, as it is now.

    Raises:
        OSError: it cannot be read.
    """
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    found: State = {
        "its directory": os.getcwd(),  # noqa: PTH109
        "the umask": int(fields["Umask"], 8),
        "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "its processors": sorted(os.sched_getaffinity(0)),
        "its priority": os.getpriority(os.PRIO_PROCESS, 0),
        "whether it is dumpable": native().dumpable(),
        "its scheduling": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
        "its session": os.getsid(0) == os.getpid(),
        "a timer": [bool(signal.getitimer(one)[0]) for one in _CLOCKS] + [_text("timers")],
    }
    found |= {words: list(resource.getrlimit(number)) for words, number in _LIMITS.items()}
    found |= {words: _text(name).strip() for words, name in _FILES.items()}
    return found | {words: fields.get(name) for words, name in _OTHERS.items()}


def _text(name: str) -> str:
    try:
        return Path(f"/proc/self/{name}").read_text()
    except OSError:  # not on each kernel
        return ""


def differ() -> None:
    """Give this process, which is thrown away, another state, so far as that does no harm."""
    os.umask(os.umask(0) ^ 0o35)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGURG,))
    with suppress(OSError):
        os.nice(1)
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) > 1:
        os.sched_setaffinity(0, processors[:-1])
    for number in _LIMITS.values():
        soft, hard = (one if 0 <= one < _MANY else _MANY for one in resource.getrlimit(number))
        hard = hard - 1 if hard > _SMALL else hard
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (soft + 1 if soft < hard else max(soft - 2, 0), hard))


def changes(
    one: tuple[State, State], other: tuple[State, State] | None
) -> tuple[State, tuple[str, ...]]:
    """What each program gets again, and the words for what changes otherwise.

    Args:
        one: before and after the load.
        other: of the second load, which began with another state; None if it failed.
    """
    again: State = {}
    left = []
    pairs = one, other or one
    for words in one[0]:
        values = [[state[words] for state in pair] for pair in pairs]
        if all(before == after for before, after in values):
            continue
        found = _change(words, *values)
        if found is None or other is None or words not in _SETTERS:
            left.append(words)
        else:
            again[words] = found
    return again, tuple(left)


def _change(words: str, one: Sequence[Any], other: Sequence[Any]) -> Any:
    """What a setter makes of it in each process, if both loads did the same."""
    if words == "blocked signals":
        more, less = [[[*{*a}.difference(b)] for b, a in pairs] for pairs in
                      ((one, other), (one[::-1], other[::-1]))]  # fmt: skip
        return [more[0], less[0]] if more[0] == more[1] and less[0] == less[1] else None
    if words == "its priority" and one[1] - one[0] == other[1] - other[0]:
        return [one[1] - one[0]]
    if words not in _LIMITS:
        return one[1] if one[1] == other[1] else None
    found: list[Any] = []
    for (now, then), (before, after) in zip(zip(*one), zip(*other)):  # noqa: B905 - as mypy has it
        if (now, before) == (then, after):
            found.append(_OWN)
        elif then == after:
            found.append(then)
        elif (then, after) == (one[0][1], other[0][1]):
            found.append(_HARD)
        else:
            return None
    return found


def apply(again: State) -> None:
    """Change this process as the import would.

    Raises:
        OSError, ValueError: the system refuses, as it would in the import; nothing is changed.
    """
    before = read() if again else {}
    done: list[str] = []
    try:
        for words, value in again.items():
            _SETTERS[words](value)
            done.append(words)
    except (OSError, ValueError):
        for words in done:
            with suppress(OSError, ValueError):
                _SETTERS[words](before[words])
        raise


def _limit(number: int) -> Callable[[Sequence[Any]], None]:
    def set_limit(wanted: Sequence[Any]) -> None:
        own = resource.getrlimit(number)
        soft, hard = (own[at] if one == _OWN else own[1] if one == _HARD else one
                      for at, one in enumerate(wanted))  # fmt: skip
        resource.setrlimit(number, (soft, hard))

    return set_limit


def _file(name: str) -> Callable[[str], None]:
    def write(text: str) -> None:
        Path(f"/proc/self/{name}").write_text(text)

    return write


def _block(signals: Sequence[Any]) -> None:
    """Numbers to block, and not to; or all that are blocked."""
    if not signals or isinstance(signals[0], int):
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, signals[0])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals[1])


def _prioritize(value: int | Sequence[int]) -> None:
    """By how much, or where to."""
    by = value - os.getpriority(os.PRIO_PROCESS, 0) if isinstance(value, int) else value[0]
    os.nice(by)


_SETTERS: Mapping[str, Callable[[Any], object]] = {
    "its directory": os.chdir,
    "its processors": lambda numbers: os.sched_setaffinity(0, numbers),
    "its priority": _prioritize,
    **{words: _file(name) for words, name in _FILES.items()},
    **{words: _limit(number) for words, number in _LIMITS.items()},
    "whether it is dumpable": lambda number: native().set_dumpable(number),
    "blocked signals": _block,
    "the umask": os.umask,
}
