"""Codes of reasons, for programs: for steps that were not taken, and for hazards of a fork, which
`Hazard` describes.

Each has a sentence for people next to it. No module matches sentences of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Stable: the report of a seal carries it."""

    # Reasons for a step that was not taken, or for a heap that is not sealed.
    NOT_STARTED = "not-started"
    """The seal as a whole has a reason."""
    POLICY = "policy"
    PLAIN = "plain"
    """The application's import holds hazards of a fork: the server starts as without pasture."""
    OFF = "off"
    """`PASTURE=off` is set."""
    NO_REQUESTS = "no-requests"
    THREAD_RUNS = "thread-runs"
    COLLECTING = "collecting"
    NO_MEMORY = "no-memory"
    EARLIER_STEP = "earlier-step"
    ERROR = "error"
    VERSION = "version"
    """Later versions of CPython have the step."""
    UNAVAILABLE = "unavailable"
    """This build of the interpreter, or its allocator, lacks what the step needs."""

    # Reasons for an extension that does not work on an interpreter.
    UNSUPPORTED = "unsupported"
    BUILD = "build"
    """The extension works once it is built there."""
    SUB_INTERPRETER = "sub-interpreter"

    # Hazards of a fork.
    CONNECTION = "connection"
    TRANSACTION = "transaction"
    DATABASE = "database-file"
    THREAD = "thread"
    NATIVE_THREAD = "native-thread"
    TASK = "task"
    LOOP_OWNED = "loop-owned"
    LIBRARY = "library"
    GEVENT_HUB = "gevent-hub"
    GENERATOR = "generator"
    """A generator survives, and is the same in all children."""
    LOCK = "lock"
    LISTENER = "listener"
    PROCESS = "process"
    EVENT_LOOP = "event-loop"
    TIMER = "timer"
    HANDLER = "signal-handler"
    MEMORY = "shared-memory"
    FILE = "exclusive-file"


BREAKS = "does not survive a fork"
SHARED = "would be held by all workers together"

ACCEPTABLE: Mapping[str, frozenset[Reason]] = MappingProxyType(
    {
        "threads": frozenset((Reason.THREAD, Reason.NATIVE_THREAD)),
        "signals": frozenset((Reason.TIMER, Reason.HANDLER)),
        "locks": frozenset((Reason.LOCK,)),
        "listeners": frozenset((Reason.LISTENER,)),
        "processes": frozenset((Reason.PROCESS,)),
        "loops": frozenset((Reason.EVENT_LOOP, Reason.TASK, Reason.LOOP_OWNED, Reason.GEVENT_HUB)),
        "connections": frozenset((Reason.CONNECTION, Reason.TRANSACTION, Reason.DATABASE)),
        "memory": frozenset((Reason.MEMORY,)),
        "files": frozenset((Reason.FILE,)),
        "libraries": frozenset((Reason.LIBRARY,)),
    }
)
"""Words of `--accept`, and the hazards that each accepts."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that breaks in forked children."""

    what: str  # the object, as the subject of a sentence
    hint: str  # what to do about it
    kind: Reason = Reason.LIBRARY  # its kind
    owner: str = ""  # package of a thread; "" if unknown
    fate: str = BREAKS
    where: str = ""  # module and line that made it, as in `shop/search.py:12`; "" if not known

    @property
    def survives(self) -> bool:
        """Whether it is harmless, as without pasture."""
        return self.kind is Reason.GENERATOR

    @property
    def word(self) -> str:
        """The word of `--accept` for it, or ""."""
        return next((word for word, kinds in ACCEPTABLE.items() if self.kind in kinds), "")

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.what}{where} {self.fate}: {self.hint}"
