"""Who wrote: page faults of workers, joined with what lies where they fell.

A fault is the first write to a page since the fork, or since the kernel last took the page
away; so there is one a page, and its address is that of the first word written. Owns the
join of samples with causes, and which function is named; sampling is `perf`'s.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pasture.errors import ProcessEnded
from pasture.proc import tree
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.classify import Classifier
from pasture_tools.explain.difference import Batch
from pasture_tools.explain.extents import Extents
from pasture_tools.explain.fields import Label
from pasture_tools.proc.address_space import AddressSpace, Array
from pasture_tools.proc.elf import Symbols
from pasture_tools.proc.page_faults import Fault, FaultSampler

_POLL_S = 0.05
_FRAMES = 4
_COPIERS = ("memcpy", "memset", "memmove", "mempcpy", "strcpy")


@dataclass(frozen=True, slots=True)
class Writer:
    """One function, and one kind of thing that it was the first to write in a page."""

    function: str  # innermost native function with a name that is not a mere copier
    callers: tuple[str, ...]  # functions that called it, innermost first
    cause: Cause  # cause of the word that was written first
    label: Label
    faults: int  # pages that were copied, or newly had, by these writes


@dataclass(frozen=True, slots=True)
class Recording:
    """Writers of the time for which faults were sampled."""

    seconds: float  # time for which faults were sampled
    faults: int
    lost: int  # number of samples that did not fit into the buffers
    pids: tuple[int, ...]  # workers in which there were faults, ascending
    writers: tuple[Writer, ...]  # most faults first


@dataclass(frozen=True, slots=True)
class SampledFaults:
    """Faults as they were sampled."""

    seconds: float  # time for which they were sampled
    faults: list[Fault]  # every sample, in the order of time
    lost: int  # number of faults that did not fit into the buffers
    with_kernel: bool  # whether faults that the kernel took for a process are among them


def sample(
    pids: tuple[int, ...],
    seconds: float,
    tick: Callable[[], None] = lambda: None,
    *,
    workers_only: bool = False,
) -> SampledFaults:
    """Sample the faults of processes, and of those that they fork meanwhile.

    Args:
        workers_only: leave out those of the first process, which is the parent of the others.

    Raises:
        NoPrivilege: the kernel does not allow it.
        ProcessEnded: the first process ended.
    """
    found: list[Fault] = []
    first = pids[0]
    end = time.monotonic() + seconds
    with FaultSampler(pids) as sampler:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_POLL_S, left))
            found += sampler.read()
            tick()
            if not tree.is_running(first):
                recorded = "its workers were" if workers_only else "it was"
                raise ProcessEnded(
                    f"process {first} ended while {recorded} recorded",
                    hint="record the process that replaced it",
                )
        found += sampler.read()
        found = [fault for fault in found if (fault.pid == first) != workers_only]
        return SampledFaults(seconds, found, sampler.lost, sampler.with_kernel)


def join(
    sampled: SampledFaults, classifier_of: Callable[[int], Classifier], extents: Extents
) -> Recording:
    """Name writer and label of each fault; `extents` has what lies there in the parent."""
    faults = sampled.faults
    counted: Counter[tuple[str, tuple[str, ...], Cause, Label]] = Counter()
    pids = sorted({fault.pid for fault in faults})
    for pid in pids:
        classifier = classifier_of(pid)
        mine = [fault for fault in faults if fault.pid == pid]
        symbols = Symbols(classifier.worker)
        for fault, (cause, label) in zip(mine, _meanings(mine, classifier, extents), strict=True):
            if cause is not Cause.FILE_PAGE:
                counted[*_function(fault, symbols), cause, label] += 1
    writers = [Writer(*key, faults=count) for key, count in counted.most_common()]
    return Recording(sampled.seconds, len(faults), sampled.lost, tuple(pids), tuple(writers))


def _meanings(
    faults: list[Fault], classifier: Classifier, extents: Extents
) -> Iterable[tuple[Cause, Label]]:
    """Cause and label of the word that each fault fell on."""
    addresses = np.array([fault.address & ~7 for fault in faults], dtype=np.uint64)
    kept = _had_by_parent(classifier.parent, addresses)
    order = np.argsort(addresses[kept], kind="stable")  # faults are in the order of time
    ascending = addresses[kept][order]
    pages, rows = np.unique(
        ascending // np.uint64(OS_PAGE_BYTES) * np.uint64(OS_PAGE_BYTES), return_inverse=True
    )
    found = classifier.classify(Batch(pages, ascending, rows), extents)
    place = np.argsort(order)
    known = iter(zip(found.causes[place].tolist(), found.labels[place].tolist(), strict=True))
    for i, had in enumerate(kept.tolist()):
        if had:
            cause, number = next(known)
            yield Cause(cause), found.names[number]
        else:
            # New memory, or a page of a file that was read for the first time.
            mapping = classifier.worker.find(int(addresses[i]))
            if mapping is not None and mapping.is_file:
                yield Cause.FILE_PAGE, Label("file", "")
            else:
                yield Cause.NEW_MEMORY, Label("new memory", "")


def _had_by_parent(parent: AddressSpace, addresses: Array) -> Array:
    """Whether each address is in writable memory that the parent has pages for."""
    kept = np.zeros(len(addresses), dtype=bool)
    for mapping in parent.mappings:
        inside = (addresses >= np.uint64(mapping.start)) & (addresses < np.uint64(mapping.end))
        if not inside.any() or "w" not in mapping.permissions:
            continue
        kept[inside] = mapping.is_file or parent.has_pages(mapping, addresses[inside])
    return kept


def _function(fault: Fault, symbols: Symbols) -> tuple[str, tuple[str, ...]]:
    names = [symbols.name(fault.instruction)]
    names += [symbols.name(address - 1) for address in fault.stack[:_FRAMES]]
    while len(names) > 1 and any(copier in names[0] for copier in _COPIERS):
        del names[0]
    return names[0], tuple(names[1 : _FRAMES - 1])
