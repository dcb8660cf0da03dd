"""What an import changes of its process that is not in memory: umask, limits, directory, priority.

A copy of the memory has none of it. Owns reading that state, and the words for what has changed:
no image is made then, unless that is allowed.
"""

from __future__ import annotations

import os
import resource
import signal
from typing import Any

from pasture.interpreter import native

State = dict[str, Any]
"""Values by the words for them."""

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
    **{"its memory nodes": "Mems_allowed", "huge pages": "THP_enabled", "the umask": "Umask"},
}
"""Fields of proc_pid_status(5)."""
_CLOCKS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def read() -> State:
    """Of this process, as it is now."""
    fields = dict(line.split(":\t", 1) for line in _text("status").splitlines())
    found: State = {
        "its directory": os.getcwd(),  # noqa: PTH109
        "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "its processors": sorted(os.sched_getaffinity(0)),
        "its priority": os.getpriority(os.PRIO_PROCESS, 0),
        "whether it is dumpable": native().dumpable(),
        "its scheduling": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
        "its session": os.getsid(0) == os.getpid(),
        "its child processes": _text(f"task/{os.getpid()}/children"),
        "a timer": [bool(signal.getitimer(one)[0]) for one in _CLOCKS] + [_text("timers")],
    }
    found |= {words: list(resource.getrlimit(number)) for words, number in _LIMITS.items()}
    found |= {words: _text(name).strip() for words, name in _FILES.items()}
    return found | {words: fields.get(name) for words, name in _OTHERS.items()}


def changed(before: State, after: State) -> list[str]:
    """The words for what is not as it was."""
    return [words for words, value in before.items() if after[words] != value]


def _text(name: str) -> str:
    try:
        with open(f"/proc/self/{name}") as file:  # noqa: PTH123 - less is loaded into the image
            return file.read()
    except OSError:  # not on each kernel
        return ""
