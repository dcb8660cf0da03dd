"""Obstacles to sharing memory in a running server, found from outside.

Each check is a pure function of `Evidence`, which is read once and frozen, and gives findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from pasture.errors import see
from pasture.interpreter import FIRST_IMMORTAL
from pasture.proc.maps import python_version
from pasture_tools.display.units import megabytes
from pasture_tools.doctor import hung, sharing, steps, trouble
from pasture_tools.doctor.evidence import Evidence
from pasture_tools.doctor.findings import Check, Finding
from pasture_tools.doctor.trouble import is_near

_ALLOCATORS = re.compile(r"(jemalloc|tcmalloc|mimalloc|hoard|snmalloc|scudo)")
_OWN_GC_CALLERS = ("pasture.", "gc", "__main__")
_FIX = (
    "fix the page, or what the application holds across the fork, and start the server again"
    + see("probe")
)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of all checks, obstacles first."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    return tuple(sorted(found, key=lambda finding: not finding.is_obstacle))


# --- Checks ---------------------------------------------------------------------------


def effect(seen: Evidence) -> Iterator[Finding]:
    """A server that asks for a seal and has none."""
    if seen.state.kind == "without effect":
        yield Finding(
            "effect",
            True,
            f"pasture is {seen.state}",
            cost="workers share as much as without pasture",
            fix="fix the reason, and start the server again" + see("turn-off"),
        )


def garbage_collector(seen: Evidence) -> Iterator[Finding]:
    """Libraries that turn the collector on again undo gc.disable()."""
    if seen.notes is None:
        return
    others = [c for c in seen.notes.gc_callers if not c.startswith(_OWN_GC_CALLERS)]
    if not others:
        yield Finding("gc-enable", False, "no library called gc.enable()")
    for caller in others:
        if seen.seal is not None and seen.seal.freezes:
            what = f"{caller} called gc.enable(): collections pass over what was frozen"
            yield Finding("gc-enable", False, what)
            continue
        yield Finding(
            "gc-enable",
            True,
            f"{caller} called gc.enable()",
            cost="each full collection writes the header of every object that is not frozen",
            fix="gc.freeze() before the fork (policies freeze, warm-freeze, seal), or "
            "gc.set_threshold(0), which gc.enable() does not undo",
        )


def stable_abi(seen: Evidence) -> Iterator[Finding]:
    """Packages whose extensions, for the stable ABI of old versions, count immortal objects.

    This is not an obstacle: most of them have no other build, and they touch little.
    """
    version = python_version(seen.files)
    wheels = {
        module.wheel
        for module in seen.modules
        if module.wheel is not None and not module.wheel.knows_immortality
    }
    if wheels and (not version or version < FIRST_IMMORTAL):
        return
    if not wheels:
        yield Finding("abi3", False, "no extension for the stable ABI counts references inline")
        return
    names = ", ".join(map(str, sorted(wheels)))
    what = "immortal objects are not shared where these extensions count references inline"
    yield Finding("abi3", False, f"{what}: {names}")


def huge_pages(seen: Evidence) -> Iterator[Finding]:
    """New memory comes 2 MB at a time, and khugepaged copies small shared pages together.

    A write to a huge page copies 4 KB of it, and shares the rest as small pages (Linux 5.8,
    mm/huge_memory.c, do_huge_pmd_wp_page; before it copied all where it could).
    """
    if "[always]" in seen.huge_pages:
        yield Finding(
            "huge-pages",
            True,
            "transparent huge pages are set to always",
            cost="a worker's new memory comes 2 MB at a time, and the kernel may copy small pages "
            "that it shares into a huge one of its own",
            fix="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    else:
        state = re.search(r"\[(\w+)\]", seen.huge_pages)
        name = state[1] if state else "absent"
        yield Finding("huge-pages", False, f"transparent huge pages: {name}")


def allocator(seen: Evidence) -> Iterator[Finding]:
    """Holes are plugged in any allocator behind malloc, and in pymalloc's pools."""
    others = [f for f in seen.files if _ALLOCATORS.search(PurePath(f).name)]
    for file in others:
        what = f"{PurePath(file).name} is loaded: where it serves malloc, its holes are plugged"
        yield Finding("allocator", False, what)
    choice = seen.environ.get("PYTHONMALLOC", "")
    if choice not in ("", "default", "pymalloc"):
        yield Finding(
            "allocator",
            True,
            f"PYTHONMALLOC is {choice}",
            cost="objects do not lie in pymalloc's pools, whose holes could be plugged",
            fix="unset PYTHONMALLOC",
        )
    elif not others:
        yield Finding("allocator", False, "glibc's malloc and pymalloc")


def hung_workers(seen: Evidence) -> Iterator[Finding]:
    """Workers that wait for a lock where others wait for connections."""
    for process in seen.hung:
        yield from hung.findings(process)


def endangered(seen: Evidence) -> Iterator[Finding]:
    """A limit that is near, growth with requests, memory that workers no longer share."""
    workers = [trouble.Worker(one.pid, one.memory, one.entry) for one in seen.workers]
    is_sealed = seen.seal is not None and seen.seal.sealed
    for one in trouble.troubles(seen.master, workers, seen.usage, is_sealed=is_sealed):
        if one.kind != "preload":  # `sharing.preloading` reports more
            yield Finding(one.kind, True, one.what, one.cost, one.fix)
    if seen.usage is not None and not is_near(seen.usage):
        left, limit = megabytes(seen.usage.headroom_bytes), megabytes(seen.usage.limit_bytes)
        yield Finding("limit", False, f"{left} are left of the limit of {limit}")


def probe(seen: Evidence) -> Iterator[Finding]:
    """The outcome of the latest start's probe."""
    outcome = "" if seen.seal is None else seen.seal.probe
    if outcome == "failed":
        what = "its probe failed, and it started as it is: the log names the request"
        yield Finding("probe", True, what, cost="workers fail or hang", fix=_FIX)
    elif outcome:
        what = "its probe passed: no 5xx in a process forked as a worker is, and no slow answer"
        yield Finding("probe", False, what)


CHECKS: tuple[Check, ...] = (
    effect,
    hung_workers,
    endangered,
    steps.hazards,
    sharing.preloading,
    sharing.own_data,
    sharing.late_imports,
    sharing.pending_imports,
    steps.seal,
    steps.warm_up,
    probe,
    steps.threads,
    garbage_collector,
    stable_abi,
    huge_pages,
    allocator,
    steps.interpreter,
)
