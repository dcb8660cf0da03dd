"""Why each private page of a worker is private.

Joins difference, snapshot and memory for one pair of processes into frozen measurements. Stops
neither process. The result lists what could not be found out, and why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import numpy as np

from pasture.errors import ProcessEnded
from pasture.proc import smaps, tree
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.tree import read_again
from pasture.scoreboard import reader
from pasture.scoreboard.growth import growth_of
from pasture_tools.explain import owners, sources, writers
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.classify import Classifier
from pasture_tools.explain.difference import PrivatePages, compare, private_pages
from pasture_tools.explain.explanation import Explanation
from pasture_tools.explain.extents import NOTHING, Windows, extents_in
from pasture_tools.explain.fields import Label
from pasture_tools.explain.new_memory import NewMemory
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.snapshot import Snapshot
from pasture_tools.explain.tally import Tally
from pasture_tools.explain.touched import TouchedObjects, Window
from pasture_tools.explain.writers import Recording, SampledFaults
from pasture_tools.proc.address_space import AddressSpace, Array, ended
from pasture_tools.proc.image_space import ImageSpace, without_image
from pasture_tools.proc.images import find_image

WITHOUT_KERNEL = (
    "the recording has no faults inside system calls, as when read() fills a buffer: record as "
    "root, or with kernel.perf_event_paranoid at 1 or less"
)

_WINDOW_OS_PAGES = (64 << 20) // OS_PAGE_BYTES
_MAX_TRIES = 5
_BETWEEN_TRIES_S = 0.3


def explain(
    parent_pid: int | None,
    worker_pid: int | None,
    snapshot: Path | None = None,
    *,
    record_s: float = 0.0,
    tick: Callable[[], None] = lambda: None,
) -> Explanation:
    """Explain the private memory of a worker, or of a program out of an image.

    Args:
        parent_pid: None compares the process `worker_pid` with the image that it came out of.
        worker_pid: None is the worker with the most private memory, once recording is over.
        record_s: how long to sample page faults first; 0 samples none.
        tick: called repeatedly while faults are sampled.
        snapshot: file that the parent wrote; None is the one that its environment names, if any.

    Raises:
        ProcessEnded: one of the two ended meanwhile.
        NoPrivilege: the kernel does not let this user look.
        UsageError: the file that was asked for is not a snapshot, or is another process's.
    """
    sampled = None
    if parent_pid is None:
        assert worker_pid is not None
        if record_s:
            sampled = writers.sample((worker_pid,), record_s, tick)
        return _explain(None, worker_pid, snapshot, sampled)
    if record_s:
        pids = (parent_pid, *tree.forked_workers(parent_pid))
        sampled = writers.sample(pids, record_s, tick, workers_only=True)
    if worker_pid is not None:
        return _explain(parent_pid, worker_pid, snapshot, sampled)
    found = read_again(
        lambda: _explain(parent_pid, sources.largest_worker(parent_pid), snapshot, sampled),
        _MAX_TRIES,
        between=lambda: time.sleep(_BETWEEN_TRIES_S),
    )
    assert found is not None  # the last reading raises instead
    return found


def _explain(
    parent_pid: int | None, worker_pid: int, snapshot: Path | None, sampled: SampledFaults | None
) -> Explanation:
    begin = perf_counter()
    server = sources.OF_AN_IMAGE
    if parent_pid is not None:
        server = sources.look_at_server(parent_pid, worker_pid)
        parent_pid = reader.forked_by(worker_pid, parent_pid)
    with (
        AddressSpace(worker_pid) as worker,
        ImageSpace(worker) if parent_pid is None else AddressSpace(parent_pid) as parent,
    ):
        pages = private_pages(parent, worker)
        memory = smaps.read_memory(worker_pid)
        if memory is None:
            raise ended(worker_pid)
        known = sources.find_sources(parent, snapshot)
        image = _image(parent, worker)
        if image is not None:
            for space in (parent, worker):
                space.mappings = without_image(space.mappings, image)
        classifier = Classifier(
            parent,
            worker,
            known.fields,
            same_version=known.same_version,
            has_snapshot=known.snapshot is not None,
        )
        tally, touched = _tally(classifier, pages, known.snapshot)
        recording = None if sampled is None else _join(classifier, known.snapshot, sampled)
        without_kernel = sampled is not None and not sampled.with_kernel
        missing = (*known.missing, WITHOUT_KERNEL) if without_kernel else known.missing
        objects, codes = owners.most_touched(known.snapshot, classifier.objects, touched)
        return Explanation(
            worker_pid=worker_pid,
            parent_pid=parent_pid,
            private_bytes=memory.private_bytes,
            os_pages=pages.count,
            seconds=perf_counter() - begin,
            snapshot=str(known.snapshot.path) if known.snapshot else None,
            policy=known.snapshot.policy if known.snapshot else server.policy,
            missing=missing,
            causes=tally.ranked_causes(),
            fields=tally.ranked_fields(),
            types=tally.ranked_types(),
            owners=objects,
            codes=codes,
            holders=owners.most_holding(known.snapshot, classifier.objects, touched),
            recording=recording,
            python=known.version,
            requests=server.requests,
            is_asgi=server.is_asgi,
            warms_up=server.warms_up,
            growth=growth_of(server.entry, memory.anonymous_bytes),
            grown=owners.most_grown(known.snapshot, classifier.objects, worker, touched),
            dangers=server.dangers,
            hazards=server.hazards,
            image=image if parent_pid is None else None,
        )


def _image(parent: AddressSpace, worker: AddressSpace) -> str | None:
    """The path of the image that both came out of."""
    if isinstance(parent, ImageSpace):
        return parent.path
    found = find_image(worker.pid, worker.mappings)
    return None if found is None else found.path


def _join(like: Classifier, snapshot: Snapshot | None, sampled: SampledFaults) -> Recording:
    """Join samples with causes, each in its own worker; in the parent if that has ended."""
    page = np.uint64(OS_PAGE_BYTES)
    addresses = np.array([fault.address for fault in sampled.faults], dtype=np.uint64)
    extents = extents_in(snapshot, np.unique(addresses // page * page)) if snapshot else NOTHING
    with ExitStack() as opened:

        def classifier_of(pid: int) -> Classifier:
            if pid == like.worker.pid:
                return like
            try:
                return like.of_worker(opened.enter_context(AddressSpace(pid)))
            except ProcessEnded:
                return like.of_worker(like.parent)

        return writers.join(sampled, classifier_of, extents)


def _tally(
    classifier: Classifier, pages: PrivatePages, snapshot: Snapshot | None
) -> tuple[Tally, TouchedObjects]:
    tally, touched = Tally(), TouchedObjects()
    windows = Windows(snapshot, pages.compared, _WINDOW_OS_PAGES) if snapshot else None
    for i, first in enumerate(range(0, len(pages.compared), _WINDOW_OS_PAGES)):
        extents = windows.extents(i) if windows else NOTHING
        window = Window(extents)
        chosen = pages.compared[first : first + _WINDOW_OS_PAGES]
        for batch in compare(classifier.parent, classifier.worker, chosen):
            classified = classifier.classify(batch, extents)
            tally.add(classified)
            window.add(classified)
        touched.add(window)
    tally.add_pages(Cause.FILE_PAGE, Label("file", ""), len(pages.of_file))
    _tally_new(tally, classifier, pages.new)
    return tally, touched


def _tally_new(tally: Tally, classifier: Classifier, os_pages: Array) -> None:
    """Add the pages that the parent never had, by what is in them."""
    worker, fields = classifier.worker, classifier.fields
    new = NewMemory(
        worker,
        Objects(worker, fields) if fields else None,
        classifier.regions,
        classifier.allocated.chunks()[1],
    )
    for count, words in new.words(os_pages):
        tally.add_new(count, words, new.labels())
