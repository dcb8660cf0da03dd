"""The steps of a seal that were taken, and what prevents one: threads, the interpreter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from pasture.errors import see
from pasture.fork_safety import native_threads
from pasture.fork_safety.survey import remedy_for_thread, starts_again
from pasture.interpreter import without_remedy
from pasture.log_lines import some
from pasture.proc.maps import python_version
from pasture.reasons import Reason
from pasture.sealing.steps import HEAP_STEPS
from pasture_tools.display.units import count
from pasture_tools.doctor.evidence import Evidence
from pasture_tools.doctor.findings import Finding
from pasture_tools.doctor.threads import Thread

_MAX_NAMES = 12
_BROKEN = "a worker that uses it fails, hangs, or disturbs the others"
_SAID_ELSEWHERE = (Reason.THREAD_RUNS, Reason.VERSION)
"""Reasons that the checks of threads and of the interpreter report."""


def hazards(seen: Evidence) -> Iterator[Finding]:
    """Hazards that the seal found: workers inherit them and cannot use them."""
    for hazard in seen.seal.hazards if seen.seal is not None else ():
        if hazard.survives:
            yield Finding("hazards", False, str(hazard))
            continue
        yield Finding(
            "hazards", True, f"{hazard.what} does not survive a fork", cost=_BROKEN, fix=hazard.hint
        )
    if seen.seal is not None and seen.seal.unnamed:
        what = f"the seal found {count(seen.seal.unnamed, 'thing')} that a fork breaks"
        yield Finding("hazards", True, what, cost=_BROKEN, fix="its log names each with a remedy")


def seal(seen: Evidence) -> Iterator[Finding]:
    """pasture's work in the master, and the steps that it left out."""
    if seen.seal is None:
        return
    found = seen.seal
    others = [one for one in found.left_out if one.why not in _SAID_ELSEWHERE]
    if found.sealed and not others:
        what = f"{found.objects:,} objects are immortal" if found.objects else "it is frozen"
        yield Finding("seal", False, f"the master is sealed by the policy {found.policy}: {what}")
    if not found.sealed and found.why is not Reason.THREAD_RUNS:
        yield _not_sealed(seen)
    if found.dead:
        what, _, fix = found.dead.rpartition(": ")
        cost = "workers and their master keep that memory until the server ends"
        yield Finding("seal", True, what, cost=f"{cost}{see('seal')}", fix=fix)
    for left in others if found.sealed else ():
        yield Finding(
            "seal",
            True,
            f"the step {left.step} was left out: {left.sentence}",
            cost=f"what that step would have kept shared{see('seal')}",
            fix="fix the reason, and start the server again",
        )


def warm_up(seen: Evidence) -> Iterator[Finding]:
    """Whether the requests before the fork were answered."""
    requests, failed, first = (0, 0, "") if seen.seal is None else seen.seal.warm_up
    if failed:
        yield Finding(
            "warm-up",
            True,
            f"{failed} of {requests} requests of the warm-up failed: {first}",
            cost="what they load is each worker's own, and the probe does not send them",
            fix="`--lifespan warm-up` or `once` if they need the application's start; else fix "
            "them or leave them out",
        )
    elif requests:
        what = f"{requests} request{'' if requests == 1 else 's'} before the fork, all answered"
        yield Finding("warm-up", False, what)


def _not_sealed(seen: Evidence) -> Finding:
    assert seen.seal is not None
    reason = seen.seal.reason or (
        "its log says why" if not seen.seal.has_report else "it does not say why"
    )
    if seen.seal.why is Reason.PLAIN:
        return Finding(
            "seal",
            True,
            f"it started as without pasture, because {reason}",
            cost="each worker has the application's memory for itself",
            fix="move it out of the import, or accept it (docs/what-runs.md)",
        )
    return Finding(
        "seal",
        True,
        f"the master is not sealed by the policy {seen.seal.policy}: {reason}",
        cost="reading and collecting write to what workers share",
        fix="`pasture run` with the policy seal, which is the default",
    )


def threads(seen: Evidence) -> Iterator[Finding]:
    """Threads of the master: a seal leaves out steps while one runs."""
    early = [thread for thread in seen.threads if not thread.after_fork]
    late = [thread for thread in seen.threads if thread.after_fork]
    missed = [thread for thread in early if not thread.copes]
    said = () if seen.seal is None else [hazard.kind for hazard in seen.seal.hazards]
    if missed and Reason.NATIVE_THREAD not in said:  # the seal has looked at them from inside
        yield Finding(
            "native-threads",
            True,
            f"{_counted(missed)} of native code {_verb(missed, 'runs', 'run')} in the master "
            f"alone: {_some(missed)}",
            cost="a worker that needs it hangs",
            fix=native_threads.HINT,
        )
    early = [thread for thread in early if thread.copes]
    if seen.seal is not None and seen.seal.why is Reason.THREAD_RUNS:
        yield _kept_from_sealing(seen, early)
        return
    running = [t for t in early if not t.waits and t.is_python]
    is_sealed = seen.seal is not None and seen.seal.sealed
    if running and not is_sealed:
        yield Finding(
            "threads",
            True,
            f"{_counted(running)} of the master {_verb(running, 'runs', 'run')}: {_some(running)}",
            cost="a seal leaves out the steps that are not safe while a thread runs; locks "
            "that it holds stay locked in workers",
            fix=_remedies(running),
        )
        return
    if early:
        seal = "the heap was sealed" if is_sealed else "a seal works"
        yield Finding(
            "threads",
            False,
            f"{_counted(early)} of the master {_verb(early, 'waits', 'wait')}: {_some(early)}; "
            f"{seal} all the same, and {_in_workers(early, seen)}",
        )
        return
    what = "the master runs a single thread"
    if late:
        what = f"the master ran a single thread when it forked; later began {_some(late)}"
    yield Finding("threads", False, what)


def _in_workers(early: Sequence[Thread], seen: Evidence) -> str:
    again = [t for t in early if starts_again(t.name, t.package.partition(" ")[0])]
    gone = [thread for thread in early if thread not in again]
    if not again:
        return f"workers do not have {_verb(gone, 'it', 'them')}{_unproved(seen)}"
    own = f"the libraries of {_some(again)} start their own in workers"
    return own if not gone else f"{own}; workers do not have {_some(gone)}{_unproved(seen)}"


def _unproved(seen: Evidence) -> str:
    if seen.seal is None or seen.seal.probe:
        return ""
    return f"; no probe has shown that they can do without{see('probe')}"


def _is_among(thread: Thread, names: Collection[str]) -> bool:
    """Whether a thread has one of these names, which the kernel may have cut."""
    if thread.is_cut:
        return any(name.startswith(thread.name) for name in names)
    return thread.name in names


def _kept_from_sealing(seen: Evidence, early: Sequence[Thread]) -> Finding:
    assert seen.seal is not None
    left = [one.step for one in seen.seal.left_out if one.why is Reason.THREAD_RUNS]
    names = [one for one in early if one.is_python and _is_among(one, seen.seal.beside)]
    whose = f"; {_some(names)}" if any(thread.package for thread in names) else ""
    return Finding(
        "threads",
        True,
        f"{seen.seal.reason}{whose}",
        cost=f"the seal left out {', '.join(left) or 'steps'}",
        fix=_remedies(names or early),
    )


def _remedies(found: Sequence[Thread]) -> str:
    hints = dict.fromkeys(remedy_for_thread(t.name, t.package.partition(" ")[0]) for t in found)
    return "; ".join(hints) or "start threads in workers (post_fork), not while loading"


def _counted(found: Sequence[Thread]) -> str:
    return "a thread" if len(found) == 1 else f"{len(found)} threads"


def _verb(found: Sequence[Thread], one: str, many: str) -> str:
    return one if len(found) == 1 else many


def _some(found: Sequence[Thread]) -> str:
    return some(sorted(set(map(str, found))), _MAX_NAMES)


def interpreter(seen: Evidence) -> Iterator[Finding]:
    """Whether the interpreter has all steps of a seal."""
    version = python_version(seen.files)
    if version is None:
        yield Finding("interpreter", False, "the version of Python is unknown")
    elif any(re.search(r"python3\.\d+t", f) for f in (*seen.files, *seen.command)):
        yield Finding(
            "interpreter",
            True,
            f"Python {version[0]}.{version[1]} without the GIL",
            cost="its heap cannot be sealed",
            fix="use the build with the GIL",
        )
    elif missing := [
        step.lack for step in HEAP_STEPS.values() if step.lack and version < step.lack.first
    ]:
        first = max(lack.first for lack in missing)
        yield Finding(
            "interpreter",
            True,
            f"Python {version[0]}.{version[1]} " + " and ".join(lack.what for lack in missing),
            cost="; ".join(lack.cost for lack in missing),
            fix=f"Python {first[0]}.{first[1]} or newer",
        )
    elif not seen.refusals:
        yield Finding("interpreter", False, f"Python {version[0]}.{version[1]}")
    for refusal in seen.refusals:
        what, remedy = without_remedy(refusal)
        yield Finding(
            "interpreter",
            True,
            f"pasture does not fit this build of Python: {what}",
            cost="its heap cannot be sealed, or not in full",
            fix=remedy,
        )
