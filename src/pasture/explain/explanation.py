"""What came of explaining the private memory of a worker: frozen measurements.

All that could not be found out, and why, is part of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.explain.causes import Cause
from pasture.explain.fields import Label
from pasture.explain.tally import Share
from pasture.explain.writers import Recording


@dataclass(frozen=True, slots=True)
class Owner:
    """One object of the parent that a worker's writes fell on.

    Attributes:
        type: its type.
        path: way to it from a root; for code the qualified name.
        file: file and line of code; else "".
        os_pages: number of pages that are private because of it.
        words: number of its words that differ.
    """

    type: str
    path: str
    file: str
    os_pages: int
    words: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Objects of one type that lie in one container of the parent.

    Attributes:
        type: type of the objects.
        container: type of what holds them.
        path: way to the container from a module.
        os_pages: about how many pages are private because of them.
        restored: whether these are pages in which they lie that were written and are equal
            again; else pages in which they differ.
    """

    type: str
    container: str
    path: str
    os_pages: int
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the private memory of one worker is.

    Attributes:
        worker_pid, parent_pid: the processes compared.
        private_bytes: what `smaps_rollup` said right after.
        os_pages: private pages that were found.
        seconds: time that explaining took.
        snapshot: the file that was used; None without one.
        policy: name of the policy that the parent was sealed with; None if it did not say.
        python: major and minor version of its interpreter; None if it is not known.
        requests: answered by the worker so far; None where its server does not say.
        is_asgi: whether its server is one for ASGI, whose applications may have a lifespan.
        warms_up: whether it serves web requests, for which there is a warm-up; not a queue's.
        missing: what could not be found out, one sentence each.
        causes: share of each cause, largest first.
        fields: share of each field by its cause, largest first.
        types: share of each type, most pages first.
        owners: objects, of the kinds with the most pages first.
        codes: code objects, most pages first.
        holders: what holds the objects that were written, most pages first.
        recording: who wrote, if that was sampled.
    """

    worker_pid: int
    parent_pid: int
    private_bytes: int
    os_pages: int
    seconds: float
    snapshot: str | None
    policy: str | None
    missing: tuple[str, ...]
    causes: tuple[tuple[Cause, Share], ...]
    fields: tuple[tuple[Cause, Label, Share], ...]
    types: tuple[tuple[str, Share], ...]
    owners: tuple[Owner, ...]
    codes: tuple[Owner, ...]
    recording: Recording | None = None
    python: tuple[int, int] | None = None
    requests: int | None = None
    is_asgi: bool = False
    warms_up: bool = True
    holders: tuple[Holder, ...] = ()

    @property
    def explained_bytes(self) -> float:
        """Bytes of all causes together."""
        return sum(share.bytes for _, share in self.causes)

    def cause(self, cause: Cause) -> Share:
        """The share of one cause, which may be nothing."""
        return dict(self.causes).get(cause, Share())
