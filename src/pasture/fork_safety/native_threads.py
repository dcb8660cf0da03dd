"""Native threads of runtimes in Rust, C++ and C, which a child does not have.

A child in which such a runtime believes that its threads run waits for them for ever. Those that
are not known to notice a fork are hazards. A thread's stack shows its package (`proc/stacks.py`).
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from pasture.fork_safety.libraries import LIBRARIES
from pasture.proc import packages
from pasture.proc.maps import Mapping, parse_maps
from pasture.proc.stacks import are_interpreters, began_with, files_on_stack, own_code, owner_of
from pasture.proc.tasks import read_tasks
from pasture.reasons import Hazard, Reason

_TASKS = Path("/proc/self/task")
_LOOKS = 8
_BETWEEN_LOOKS_S = 0.05
"""A thread that has just ended is listed for a moment; one that runs does not show its stack."""

_COPE_BY_NAME = re.compile(r"jemalloc_bg_thd|iou-(wrk|sqp)-")
_COPE = re.compile("|".join(one.native_files for one in LIBRARIES if one.native_files))
_ELSEWHERE = tuple(one.package for one in LIBRARIES if one.known_elsewhere)

_GNU_OPENMP = re.compile(r"^libgomp")
_OPENMP_HINT = "set OMP_NUM_THREADS=1 for the parent, or compute in workers only"
_WATCHDOG_HINT = (
    "call faulthandler.cancel_dump_traceback_later() before the fork, and set it in each worker; "
    "else a worker hangs at its end"
)
START_EACH = "start it in each worker"
HINT = "use it in workers only: a call in a child may hang"


class NativeThread(NamedTuple):
    name: str  # as the kernel shows it
    # Name and version of the package whose code it runs, or a library's file name; "" where that is
    # not known.
    package: str
    files: tuple[str, ...]  # files on its stack, outermost first, without the system's
    began: tuple[str, ...]  # file of the function that it began with; none where that is not known


def hazards() -> Iterator[Hazard]:
    """A hazard for each package whose native threads run here and do not cope with a fork."""
    found: dict[tuple[str, str], list[str]] = {}
    if not (threads := _native_threads()):
        return
    inside = [
        one
        for one in threads
        if one.began and not copes(one.name, one.package, one.files)
        if are_interpreters((*one.began, *one.files[:1]))
    ]
    yield from _of_the_interpreter(inside)
    for thread in threads:
        if thread in inside:
            continue
        if not copes(thread.name, thread.package, thread.files):
            outermost = PurePath(thread.files[0]).name if thread.files else ""
            hint = _OPENMP_HINT if _GNU_OPENMP.match(outermost) else HINT
            found.setdefault((thread.package, hint), []).append(thread.name)
    packages.forget()
    for (package, hint), names in found.items():
        distinct = ", ".join(dict.fromkeys(names))
        what = f"native thread {distinct}"
        if len(names) > 1:
            what = f"each of {len(names)} native threads ({distinct})"
        owner = package or "a library that its stack does not show"
        yield Hazard(f"{what} of {owner}", hint, Reason.NATIVE_THREAD)


def _of_the_interpreter(threads: Sequence[NativeThread]) -> Iterator[Hazard]:
    """The interpreter's threads that `threading` does not know: started by `_thread`, or in C.
    faulthandler has the only one in C.
    """
    if not threads:
        return
    known = {thread.ident for thread in threading.enumerate()} | {threading.get_ident()}
    modules = [
        str(frame.f_globals.get("__name__", ""))
        for ident, frame in sys._current_frames().items()
        if ident not in known
    ]
    for module in dict.fromkeys(modules):
        yield Hazard(f"a thread that {module or 'code'} has started", START_EACH, Reason.THREAD)
    if len(threads) > len(modules):
        yield Hazard("faulthandler's watchdog", _WATCHDOG_HINT, Reason.NATIVE_THREAD)


def copes(name: str, package: str, files: Sequence[str]) -> bool:
    """Whether children are known to do without a thread, or another check decides it."""
    if _COPE_BY_NAME.match(name) or package.startswith(_ELSEWHERE):
        return True
    return bool(files) and bool(_COPE.search(files[0]))


def _native_threads() -> list[NativeThread]:
    found: dict[int, NativeThread] = {}
    for look in range(_LOOKS):
        known = {thread.native_id for thread in threading.enumerate()}
        numbers = set(read_tasks()) - known - {threading.get_native_id()}
        found = {number: thread for number, thread in found.items() if number in numbers}
        missing = [number for number in numbers if not (number in found and found[number].files)]
        if look and not missing:
            break
        if not numbers:
            return []
        mappings = parse_maps(packages.read_text("/proc/self/maps"))
        found |= {number: _look_at(number, mappings) for number in missing}
        time.sleep(_BETWEEN_LOOKS_S)
    return [found[number] for number in sorted(found)]


def _look_at(number: int, mappings: Sequence[Mapping]) -> NativeThread:
    name = packages.read_text(str(_TASKS / str(number) / "comm")).strip()
    files = files_on_stack(os.getpid(), number, mappings)
    began = began_with(os.getpid(), number, mappings)
    return NativeThread(name, owner_of(files)[0], tuple(own_code(files)), began)
