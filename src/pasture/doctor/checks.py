"""What stands in the way of sharing memory, found from outside of a running server.

Each check is a pure function of `Evidence`, which is read once and frozen, and gives findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from pasture.doctor.evidence import Evidence
from pasture.doctor.modules import FIRST_IMMORTAL
from pasture.proc.maps import python_version
from pasture.sealing.interpreter import SUPPORTED

_ALLOCATORS = re.compile(r"(jemalloc|tcmalloc|mimalloc|hoard|snmalloc|scudo)")
_NOT_PRELOADED = 0.6
_LEAST_PRIVATE_BYTES = 8_000_000
_MOST_NAMES = 12
_OWN_GC_CALLERS = ("pasture.", "gc", "__main__")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: its name, stable.
        is_obstacle: whether it costs shared memory.
        what: what was found, one sentence without a full stop.
        cost: what it costs; "" for what is in order.
        mend: how to fix it; "" for what is in order.
    """

    check: str
    is_obstacle: bool
    what: str
    cost: str = ""
    mend: str = ""


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of all checks, obstacles first."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    return tuple(sorted(found, key=lambda finding: not finding.is_obstacle))


# --- Checks ---------------------------------------------------------------------------


def preloading(seen: Evidence) -> Iterator[Finding]:
    """Workers that loaded the application each for itself share little with the master."""
    if not seen.workers:
        yield Finding("preload", False, "no workers: nothing was forked yet")
        return
    private = sum(w.private_bytes for w in seen.workers) / len(seen.workers)
    rss = sum(w.rss_bytes for w in seen.workers) / len(seen.workers)
    own = seen.master.rss_bytes
    if private > _NOT_PRELOADED * rss and private > _LEAST_PRIVATE_BYTES and own < 0.8 * rss:
        yield Finding(
            "preload",
            True,
            f"workers hold {private / 1e6:.0f} MB of {rss / 1e6:.0f} MB for themselves, and the "
            f"master only {own / 1e6:.0f} MB: the application is loaded after the fork",
            cost=f"up to {private / 1e6:.0f} MB for each worker",
            mend="load it before: `pasture run gunicorn ...`, or gunicorn's --preload",
        )
    else:
        shared = 1 - private / rss if rss else 0
        yield Finding("preload", False, f"workers share {shared * 100:.0f} % of their memory")


def threads(seen: Evidence) -> Iterator[Finding]:
    """Threads of the master: a fork takes none along, and a seal refuses to run beside them."""
    others = seen.threads[1:]
    if not others:
        yield Finding("threads", False, "the master runs a single thread")
        return
    control = "gunicorn" in " ".join(seen.command) and any("ctl" in name for name in others)
    who = "gunicorn's control server, " if control else ""
    yield Finding(
        "threads",
        True,
        f"the master runs {len(others)} more threads: {who}{_some(others)}",
        cost="locks that they hold stay locked in workers for ever, and a heap in use by other "
        "threads cannot be sealed",
        mend="start threads in workers (post_fork), not while loading; for gunicorn's control "
        "server: `pasture run`, which starts it after the seal, or --no-control-socket",
    )


def _some(names: tuple[str, ...]) -> str:
    distinct = sorted(set(names))
    more = f" and {len(distinct) - _MOST_NAMES} more" if len(distinct) > _MOST_NAMES else ""
    return ", ".join(distinct[:_MOST_NAMES]) + more


def garbage_collector(seen: Evidence) -> Iterator[Finding]:
    """Libraries that turn the collector on again undo gc.disable()."""
    if seen.gc_callers is None:
        return
    others = [c for c in seen.gc_callers if not c.startswith(_OWN_GC_CALLERS)]
    if not others:
        yield Finding("gc-enable", False, "no library called gc.enable()")
    for caller in others:
        yield Finding(
            "gc-enable",
            True,
            f"{caller} called gc.enable()",
            cost="each full collection writes the header of every object that is not frozen",
            mend="gc.freeze() before the fork (policies freeze, warm-freeze, seal), or "
            "gc.set_threshold(0), which gc.enable() does not undo",
        )


def stable_abi(seen: Evidence) -> Iterator[Finding]:
    """Packages whose extensions, for the stable ABI of old versions, count immortal objects."""
    version = python_version(seen.files)
    wheels = {
        module.file: module.wheel
        for module in seen.modules
        if module.wheel is not None and not module.wheel.knows_immortality
    }
    for package in sorted(set(wheels.values())) if version and version >= FIRST_IMMORTAL else ():
        files = [PurePath(file).name for file, wheel in wheels.items() if wheel == package]
        yield Finding(
            "abi3",
            True,
            f"{package} counts references inline ({', '.join(sorted(files))})",
            cost="writes the reference counts of immortal objects that it touches; a seal sets "
            "right what this adds up to",
            mend="a build of it for this version of Python, or for the stable ABI of 3.12",
        )
    if not wheels:
        yield Finding("abi3", False, f"{len(seen.modules)} abi3 modules, none counts inline")


def huge_pages(seen: Evidence) -> Iterator[Finding]:
    """With huge pages one write may copy 2 MB in place of 4 KB."""
    if "[always]" in seen.huge_pages:
        yield Finding(
            "huge-pages",
            True,
            "transparent huge pages are set to always",
            cost="a page counts as private as a whole, and memory grows 2 MB at a time",
            mend="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    else:
        state = re.search(r"\[(\w+)\]", seen.huge_pages)
        name = state[1] if state else "absent"
        yield Finding("huge-pages", False, f"transparent huge pages: {name}")


def same_page_merging(seen: Evidence) -> Iterator[Finding]:
    """KSM merges equal pages later; it is no obstacle, and explains odd figures."""
    state = {"0": "off", "1": "on", "2": "off, and unmerged"}.get(seen.ksm.strip(), "absent")
    yield Finding("ksm", False, f"kernel same-page merging: {state}")


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
            mend="unset PYTHONMALLOC",
        )
    elif not others:
        yield Finding("allocator", False, "glibc's malloc and pymalloc")


def interpreter(seen: Evidence) -> Iterator[Finding]:
    """Immortal objects exist from 3.12 on."""
    version = python_version(seen.files)
    if version is None:
        yield Finding("interpreter", False, "which Python this is could not be told")
    elif any(re.search(r"python3\.\d+t", f) for f in (*seen.files, *seen.command)):
        yield Finding(
            "interpreter",
            True,
            f"Python {version[0]}.{version[1]} without the GIL",
            cost="its heap cannot be sealed",
            mend="use the build with the GIL",
        )
    elif version < FIRST_IMMORTAL:
        yield Finding(
            "interpreter",
            True,
            f"Python {version[0]}.{version[1]} has no immortal objects",
            cost="reading an object writes its reference count: what a worker reads it copies",
            mend="Python 3.12 or newer",
        )
    elif not seen.refusals:
        yield Finding("interpreter", False, f"Python {version[0]}.{version[1]}")
    for refusal in seen.refusals:
        what, _, mend = refusal.partition(": `")
        yield Finding(
            "interpreter",
            True,
            f"pasture does not fit this build of Python: {what}",
            cost="its heap cannot be sealed, or not in full",
            mend=f"`{mend}" if mend else f"use {SUPPORTED}",
        )


CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    preloading,
    threads,
    garbage_collector,
    stable_abi,
    huge_pages,
    same_page_merging,
    allocator,
    interpreter,
)
