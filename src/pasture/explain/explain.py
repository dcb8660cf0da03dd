"""Why each private page of a worker is private.

Joins difference, census and memory for one pair of processes and says what came of it as
frozen measurements. Stops neither process. What could not be told, and why, is part of the
answer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil

from pasture.errors import ProcessEnded, UsageError
from pasture.explain import writers
from pasture.explain.causes import Cause
from pasture.explain.classify import Classifier
from pasture.explain.difference import PrivatePages, compare, private_pages
from pasture.explain.fields import Label
from pasture.explain.new_memory import NewMemory
from pasture.explain.objects import Objects
from pasture.explain.owners import Owners
from pasture.explain.snapshot import (
    NOTHING,
    Census,
    Fields,
    Kind,
    Windows,
    extents_in,
    fields_from,
    open_census,
)
from pasture.explain.tally import Share, Tally
from pasture.explain.touched import Touched, TouchedObjects
from pasture.explain.writers import Recording, Sampled
from pasture.proc import smaps, tree
from pasture.proc.address_space import OS_PAGE_BYTES, AddressSpace, Array, ended
from pasture.proc.again import read_again
from pasture.proc.environ import read_environ
from pasture.proc.interpreter import python_version
from pasture.scoreboard import reader
from pasture.sealing import snapshot as census_file
from pasture.sealing.interpreter import native
from pasture.trust.foreign_files import user_of

WITHOUT_KERNEL = (
    "faults that the kernel took for a process, as when read() fills a buffer, are not in the "
    "recording: record as root, or with kernel.perf_event_paranoid at 1 or less"
)

_MOST_OWNERS = 30
_MOST_OF_A_TYPE = 3
_WINDOW_OS_PAGES = 16384
_MOST_TRIES = 5
_BETWEEN_TRIES_S = 0.3


@dataclass(frozen=True, slots=True)
class Owner:
    """One object of the parent that a worker's writes fell on.

    Attributes:
        type: its type.
        path: from a root; for code the qualified name.
        file: of code, with the line; else "".
        os_pages: of it that are private because of it.
        words: of it that differ.
    """

    type: str
    path: str
    file: str
    os_pages: int
    words: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the private memory of one worker is.

    Attributes:
        worker_pid, parent_pid: the processes compared.
        private_bytes: as `smaps_rollup` said right after.
        os_pages: private pages that were found.
        seconds: that it took.
        stopped_s: for which a process was stopped.
        census: the file that was used; None without one.
        policy: whose steps the parent took before the fork; None if it did not say.
        missing: what could not be told, one sentence each.
        causes: by cause, largest first.
        fields: by cause and what was written, largest first.
        types: by type, most pages first.
        owners: objects, of the kinds with the most pages first.
        codes: code objects, most pages first.
        recording: who wrote, if that was sampled.
    """

    worker_pid: int
    parent_pid: int
    private_bytes: int
    os_pages: int
    seconds: float
    stopped_s: float
    census: str | None
    policy: str | None
    missing: tuple[str, ...]
    causes: tuple[tuple[Cause, Share], ...]
    fields: tuple[tuple[Cause, Label, Share], ...]
    types: tuple[tuple[str, Share], ...]
    owners: tuple[Owner, ...]
    codes: tuple[Owner, ...]
    recording: Recording | None = None

    @property
    def explained_bytes(self) -> float:
        """Bytes of all causes together."""
        return sum(share.bytes for _, share in self.causes)

    def cause(self, cause: Cause) -> Share:
        """The share of one cause, which may be nothing."""
        return dict(self.causes).get(cause, Share())


def find_pair(pid: int) -> tuple[int, int | None]:
    """Parent and worker for a pid that a user names; no worker if it is that of a master.

    Raises:
        ProcessEnded: there is no such process.
        NoPrivilege: there is no `/proc`, or it hides the process.
        UsageError: it was not forked by a process that still runs, and forked none.
    """
    tree.require_memory_of(pid)
    if tree.forked_workers(pid):
        return pid, None
    try:
        parent = psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        raise ended(pid) from None
    if pid in tree.forked_workers(parent):
        return parent, pid
    raise UsageError(
        f"process {pid} shares its memory with no other: it was started by exec and has forked "
        "no workers",
        hint="give the pid of a worker of a pre-fork server, or of its master; "
        "a server without preloading has nothing to share",
    )


def largest_worker(parent_pid: int) -> int:
    """The worker of a master that has the most private memory.

    Raises:
        ProcessEnded: it has none, or they are ending.
    """
    shown = reader.read_entries(parent_pid)
    workers = [
        pid
        for pid in tree.forked_workers(parent_pid)
        if pid not in shown or shown[pid].role == "worker"
    ]
    sizes = {w: m.private_bytes for w in workers if (m := smaps.read_memory(w)) is not None}
    if not sizes:
        raise ProcessEnded(
            f"process {parent_pid} has no workers any more", hint="wait until it forks some"
        )
    return max(sizes, key=lambda worker: sizes[worker])


def explain(
    parent_pid: int,
    worker_pid: int | None,
    census: Path | None = None,
    *,
    record_s: float = 0.0,
    tick: Callable[[], None] = lambda: None,
) -> Explanation:
    """Explain the private memory of a worker.

    Args:
        worker_pid: None is the worker with the most private memory, once recording is over.
        record_s: how long to sample page faults before; 0 for not at all.
        tick: called now and then meanwhile.
        census: file that the parent wrote; None is the one its environment names, if any.

    Raises:
        ProcessEnded: one of the two ended meanwhile.
        NoPrivilege: the kernel does not let this user look.
        UsageError: the census that was asked for is none, or of another process.
    """
    sampled = writers.sample(parent_pid, record_s, tick) if record_s else None
    if worker_pid is not None:
        return _explain(parent_pid, worker_pid, census, sampled)
    found = read_again(
        lambda: _explain(parent_pid, largest_worker(parent_pid), census, sampled),
        _MOST_TRIES,
        between=lambda: time.sleep(_BETWEEN_TRIES_S),
    )
    assert found is not None  # the last reading raises instead
    return found


def _explain(
    parent_pid: int, worker_pid: int, census: Path | None, sampled: Sampled | None
) -> Explanation:
    begin = perf_counter()
    parent_pid = reader.forked_by(worker_pid, parent_pid)
    with AddressSpace(parent_pid) as parent, AddressSpace(worker_pid) as worker:
        pages = private_pages(parent, worker)
        memory = smaps.read_memory(worker_pid)
        if memory is None:
            raise ended(worker_pid)
        opened, missing = _find_census(parent_pid, census)
        fields, same_version = _fields(parent, opened, missing)
        classifier = Classifier(
            parent,
            worker,
            fields,
            same_version=same_version,
            has_census=opened is not None,
        )
        tally, touched = _tally(classifier, pages, opened)
        recording = None if sampled is None else _join(classifier, opened, sampled)
        if sampled is not None and not sampled.with_kernel:
            missing.append(WITHOUT_KERNEL)
        owners, codes = _owners(classifier, opened, touched)
        return Explanation(
            worker_pid=worker_pid,
            parent_pid=parent_pid,
            private_bytes=memory.private_bytes,
            os_pages=pages.count,
            seconds=perf_counter() - begin,
            stopped_s=0.0,
            census=str(opened.path) if opened else None,
            policy=opened.policy if opened else None,
            missing=tuple(missing),
            causes=tuple(sorted(tally.causes.items(), key=lambda item: -item[1].bytes)),
            fields=tuple(
                sorted(
                    ((cause, label, share) for (cause, label), share in tally.fields.items()),
                    key=lambda row: -row[2].bytes,
                )
            ),
            types=tuple(sorted(tally.types.items(), key=lambda item: -item[1].os_pages)),
            owners=owners,
            codes=codes,
            recording=recording,
        )


def _join(like: Classifier, census: Census | None, sampled: Sampled) -> Recording:
    """Join samples with causes, each in its own worker; in the parent if that has ended."""
    page = np.uint64(OS_PAGE_BYTES)
    addresses = np.array([fault.address for fault in sampled.faults], dtype=np.uint64)
    extents = extents_in(census, np.unique(addresses // page * page)) if census else NOTHING
    with ExitStack() as opened:

        def classifier_of(pid: int) -> Classifier:
            try:
                space = opened.enter_context(AddressSpace(pid))
            except ProcessEnded:
                space = like.parent
            found = Classifier(
                like.parent,
                space,
                like.fields,
                same_version=like.same_version,
                has_census=like.has_census,
            )
            found.extents = extents
            return found

        return writers.join(sampled, classifier_of)


def _tally(
    classifier: Classifier, pages: PrivatePages, census: Census | None
) -> tuple[Tally, TouchedObjects]:
    tally, touched = Tally(), TouchedObjects()
    windows = Windows(census, pages.compared, _WINDOW_OS_PAGES) if census else None
    for i, first in enumerate(range(0, len(pages.compared), _WINDOW_OS_PAGES)):
        classifier.extents = windows.extents(i) if windows else NOTHING
        touched.begin_window(classifier.extents)
        chosen = pages.compared[first : first + _WINDOW_OS_PAGES]
        for batch in compare(classifier.parent, classifier.worker, chosen):
            classified = classifier.classify(batch)
            tally.add(classified, classifier.labels.all())
            touched.add(classified)
        touched.code_types |= classifier.code_types
        touched.end_window()
    tally.add_pages(Cause.FILE_PAGE, Label("file", ""), len(pages.of_file))
    _tally_new(tally, classifier, pages.new)
    return tally, touched


def _tally_new(tally: Tally, classifier: Classifier, os_pages: Array) -> None:
    """Add the pages that the parent never had, by what stands in them."""
    worker, fields = classifier.worker, classifier.fields
    new = NewMemory(
        worker,
        Objects(worker, fields) if fields else None,
        classifier.regions,
        classifier.chunks()[1],
    )
    for count, words in new.words(os_pages):
        tally.add_new(count, words, new.labels())


def _find_census(parent_pid: int, asked: Path | None) -> tuple[Census | None, list[str]]:
    """The census to use, and what is missing without one.

    Raises:
        UsageError: the one that was asked for cannot be used.
    """
    if asked:
        return _census_of(parent_pid, asked), []
    named = census_file.path_for(parent_pid, read_environ(parent_pid))
    missing = [
        "no census: objects are recognised by their type pointers, without owners, and the "
        "storage of dictionaries and lists is not told from other memory; start the server "
        "with PASTURE_CENSUS=/path/{pid} for more"
    ]
    if named is None:
        return None, missing
    path = Path(f"/proc/{parent_pid}/cwd") / named  # a relative one is the parent's
    try:
        return (_census_of(parent_pid, path), []) if os.path.lexists(path) else (None, missing)
    except UsageError as error:
        return None, [error.message, *missing]


def _census_of(parent_pid: int, path: Path) -> Census:
    census = open_census(path, owners=user_of(parent_pid))
    if census.pid != parent_pid:
        raise UsageError(
            f"{path} is the census of process {census.pid}, not of {parent_pid}",
            hint="give the file that this worker's parent wrote",
        )
    return census


def _fields(
    parent: AddressSpace, census: Census | None, missing: list[str]
) -> tuple[Fields | None, bool]:
    """Offsets of the parent's interpreter, and whether it is the version that runs this."""
    version = (
        (census.hexversion >> 24, census.hexversion >> 16 & 255)
        if census
        else python_version(mapping.path for mapping in parent.mappings)
    )
    same = version == sys.version_info[:2]
    if not same:
        shown = f"{version[0]}.{version[1]}" if version else "of an unknown version"
        missing.append(
            f"the process runs Python {shown}, pasture runs {sys.version_info.major}."
            f"{sys.version_info.minor}: "
            + (
                "counters of code are not told from its caches"
                if census
                else "its objects cannot be recognised; use a pasture on the same version"
            )
        )
    if census:
        return census.fields, same
    return (fields_from(native().field_offsets()) if same else None), same


def _owners(
    classifier: Classifier, census: Census | None, touched: TouchedObjects
) -> tuple[tuple[Owner, ...], tuple[Owner, ...]]:
    """Of the kinds with the most private pages the objects with the most; code apart."""
    if classifier.objects is None or census is None:
        return (), ()
    names = Owners(census, classifier.objects)
    owners: list[Owner] = []
    codes: list[Owner] = []
    for group in touched.groups():
        if group[0].kind == Kind.OBJECT and group[0].type in touched.code_types:
            codes += [_code(names, found) for found in group[:_MOST_OWNERS]]
            continue
        kind = _type_name(classifier.objects, group[0])
        for found in group[: min(_MOST_OF_A_TYPE, _MOST_OWNERS - len(owners))]:
            owners.append(Owner(kind, names.path(found.number), "", found.os_pages, found.words))
    return tuple(owners), tuple(codes)


def _code(names: Owners, found: Touched) -> Owner:
    name, file, line = names.code_name(found.address)
    return Owner("code", name, f"{file}:{line}", found.os_pages, found.words)


def _type_name(objects: Objects, touched: Touched) -> str:
    if touched.kind != Kind.OBJECT:
        return touched.kind.name.lower().replace("_", " ")
    return objects.qualified_type_name(touched.type)
