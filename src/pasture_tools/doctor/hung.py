"""Workers that wait for a lock: where, and which lost thread may have held it."""

from __future__ import annotations

from collections.abc import Iterator

from pasture.fork_safety.survey import remedy_for_thread
from pasture_tools.doctor.findings import Finding
from pasture_tools.doctor.trouble import NO_ANSWERS
from pasture_tools.doctor.waits import LOCK_FILES, SHOWN_CALLS, Lost, Process, Waiting, file_of


def findings(process: Process) -> Iterator[Finding]:
    """The finding on a process: where it waits for a lock, if it does."""
    main = process.stuck
    if main is None:
        what = f"process {process.pid} waits for no lock" + "".join(
            f": {one}" for one in process.threads[:1]
        )
        if process.by_design:
            what = f"the main thread of process {process.pid} waits by design: others serve"
        yield Finding("hung", False, what)
        return
    others = [thread for thread in process.threads if not thread.waits_for_lock]
    if others and not main.calls and not process.why_no_frames:
        what = f"process {process.pid} waits for a lock outside of Python, as without work in uWSGI"
        yield Finding("hung", False, what)
        return
    where = f" at {main.place}" if main.place else ""
    what = f"process {process.pid} waits for a lock{where}"
    holder = min(process.lost, key=lambda one: _distance(main, one), default=None)
    if holder is not None:
        was, when = ("was", " when it was forked") if process.noted else ("is", "")
        place = " < ".join(holder.calls[:SHOWN_CALLS]) or "no Python code"
        what += f"; its parent's thread {holder.name}, which it lacks, {was} at {place}{when}"
        fix = f"{remedy_for_thread(holder.name, '')}; or fork while it holds no lock"
    elif others:
        what += f"; of its {len(process.threads)} threads {len(others)} wait for no lock"
        fix = "one of these holds it"
    else:
        what += ", and so do all of its threads: one of them holds it"
        fix = "take locks in one order, and none twice"
    yield Finding("hung", True, what, NO_ANSWERS, fix)


def _distance(main: Waiting, gone: Lost) -> int:
    """Number of calls between a waiting thread and its first call in a file of a lost one."""
    files = [file for call in main.calls if (file := file_of(call)) not in LOCK_FILES]
    theirs = set(map(file_of, gone.calls))
    return next((i for i, file in enumerate(files) if file in theirs), len(files))
