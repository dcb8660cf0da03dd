"""The explanation of a worker's private memory: frozen measurements, and what they lack."""

from __future__ import annotations

from dataclasses import dataclass

from pasture.scoreboard.growth import Growth
from pasture.trust.untrusted_text import printable
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.fields import Label
from pasture_tools.explain.tally import Share
from pasture_tools.explain.writers import Recording


@dataclass(frozen=True, slots=True)
class Owner:
    """One object of the parent that a worker's writes fell on."""

    type: str
    path: str  # way to it from a root; for code the qualified name
    file: str  # file and line of code; else ""
    os_pages: int  # number of pages that are private because of it
    words: int  # number of its words that differ


@dataclass(frozen=True, slots=True)
class Holder:
    """Objects of one type that lie in one container of the parent."""

    type: str
    container: str  # type of what holds them
    path: str  # way to the container from a module
    os_pages: int  # about how many pages are private because of them
    # Whether these are pages in which they lie that were written and are equal again; else pages in
    # which they differ.
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Grown:
    """A container of the parent to which the worker has added items."""

    type: str
    path: str  # way to it from a module
    items: int  # how many more there are than in the parent


@dataclass(frozen=True, slots=True)
class Explanation:
    """The private memory of one worker."""

    # worker_pid, parent_pid: the processes compared; no parent where it is an image.
    worker_pid: int
    parent_pid: int | None
    private_bytes: int  # what `smaps_rollup` said right after
    os_pages: int  # private pages that were found
    seconds: float
    snapshot: str | None  # the file that was used; None without one
    policy: str | None  # name of the policy that the parent was sealed with; None if it did not say
    missing: tuple[str, ...]  # what could not be found out, one sentence each
    causes: tuple[tuple[Cause, Share], ...]  # share of each cause, largest first
    # Share of each field by its cause, largest first.
    fields: tuple[tuple[Cause, Label, Share], ...]
    types: tuple[tuple[str, Share], ...]  # share of each type, most pages first
    owners: tuple[Owner, ...]  # objects, of the kinds with the most pages first
    codes: tuple[Owner, ...]  # code objects, most pages first
    recording: Recording | None = None  # who wrote, if that was sampled
    # Major and minor version of its interpreter; None if it is not known.
    python: tuple[int, int] | None = None
    requests: int | None = None  # answered by the worker so far; None where its server does not say
    # Whether its server is one for ASGI, whose applications may have a lifespan.
    is_asgi: bool = False
    # Whether it serves web requests, for which there is a warm-up; not a queue's.
    warms_up: bool = True
    holders: tuple[Holder, ...] = ()  # what holds the objects that were written, most pages first
    growth: Growth | None = None  # its steady growth with its requests
    grown: tuple[Grown, ...] = ()  # what the worker has added to most
    dangers: tuple[str, ...] = ()  # what else endangers the server, the most urgent first
    hazards: tuple[str, ...] = ()  # what the server's seal found that does not survive a fork
    image: str | None = None  # path of the image that the process came out of, compared with

    @property
    def subject(self) -> str:
        """The process, in words."""
        return f"{'worker' if self.image is None else 'program'} {self.worker_pid}"

    @property
    def origin(self) -> str:
        """The parent or image that it is compared with, in words."""
        if self.image is None:
            return f"its parent {self.parent_pid}"
        return f"its image {printable(self.image)}"

    @property
    def explained_bytes(self) -> float:
        """Bytes of all causes together."""
        return sum(share.bytes for _, share in self.causes)

    def cause(self, cause: Cause) -> Share:
        """The share of one cause, which may be nothing."""
        return dict(self.causes).get(cause, Share())
