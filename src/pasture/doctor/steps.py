"""Which steps of a seal were taken, and what keeps one from being taken: threads, interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pasture.display.units import some
from pasture.doctor.evidence import Evidence
from pasture.doctor.finding import Finding
from pasture.doctor.threads import Thread
from pasture.fork_safety import native_threads
from pasture.fork_safety.survey import remedy_for_thread, starts_again
from pasture.interpreter import FIRST_WITH, SUPPORTED
from pasture.proc.maps import python_version

_MAX_NAMES = 12
_THREADS_RUN = "Python thread(s) running"
_BESIDE = "not beside a thread that runs"
_LACKS = {
    "immortalize": (
        "has no immortal objects",
        "reading an object writes its reference count: what a worker reads it copies",
    ),
}


def hazards(seen: Evidence) -> Iterator[Finding]:
    """What workers have inherited and cannot use, as the seal has found it."""
    for what, hint in seen.seal.hazards if seen.seal is not None else ():
        yield Finding(
            "hazards",
            True,
            f"{what} does not survive a fork",
            cost="a worker that uses it fails, hangs, or disturbs the others",
            mend=hint,
        )


def seal(seen: Evidence) -> Iterator[Finding]:
    """What pasture did to the master, and which steps it left out."""
    if seen.seal is None:
        return
    found = seen.seal
    lacking = _lacking(seen)
    others = [(n, why) for n, why in found.left_out if why != _BESIDE and n not in lacking]
    if found.sealed and not others:
        what = f"{found.objects:,} objects are immortal" if found.objects else "it is frozen"
        yield Finding("seal", False, f"the master is sealed by the policy {found.policy}: {what}")
    if not found.sealed and _THREADS_RUN not in found.reason:
        yield _not_sealed(seen)
    for name, why in others if found.sealed else ():
        yield Finding(
            "seal",
            True,
            f"the step {name} was left out: {why}",
            cost="what that step would have kept shared: docs/seal.md",
            mend="fix the reason, and start the server again",
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
            mend="`--lifespan warm-up` or `once` if they need the application's start; else fix "
            "them or leave them out",
        )
    elif requests:
        what = f"{requests} request{'' if requests == 1 else 's'} before the fork, all answered"
        yield Finding("warm-up", False, what)


def _not_sealed(seen: Evidence) -> Finding:
    assert seen.seal is not None
    reason = seen.seal.reason or (
        "why stands in its log" if not seen.seal.has_report else "it does not say why"
    )
    return Finding(
        "seal",
        True,
        f"the master is not sealed by the policy {seen.seal.policy}: {reason}",
        cost="reading and collecting write to what workers share",
        mend="`pasture run` with the policy seal, which is the default",
    )


def threads(seen: Evidence) -> Iterator[Finding]:
    """Threads of the master: a seal leaves out steps beside one that runs."""
    early = [thread for thread in seen.threads if not thread.after_fork]
    late = [thread for thread in seen.threads if thread.after_fork]
    missed = [thread for thread in early if not thread.copes]
    if missed and not _seal_names_native_threads(seen):
        yield Finding(
            "native-threads",
            True,
            f"{_counted(missed)} of native code {_verb(missed, 'runs', 'run')} in the master "
            f"alone: {_some(missed)}",
            cost="a worker that needs one waits for it for ever",
            mend=native_threads.HINT,
        )
    early = [thread for thread in early if thread.copes]
    if seen.seal is not None and _THREADS_RUN in seen.seal.reason:
        yield _kept_from_sealing(seen, early)
        return
    running = [t for t in early if not t.waits and t.is_python]
    is_sealed = seen.seal is not None and seen.seal.sealed
    if running and not is_sealed:
        yield Finding(
            "threads",
            True,
            f"{_counted(running)} of the master {_verb(running, 'runs', 'run')}: {_some(running)}",
            cost="a seal leaves out the steps that are not safe beside a thread that runs; locks "
            "that it holds stay locked in workers",
            mend=_remedies(running),
        )
        return
    if early:
        beside = "the heap was sealed beside" if is_sealed else "a seal works beside"
        yield Finding(
            "threads",
            False,
            f"{_counted(early)} of the master {_verb(early, 'waits', 'wait')}: {_some(early)}; "
            f"{beside} {_verb(early, 'it', 'them')}, and {_in_workers(early)}",
        )
        return
    what = "the master runs a single thread"
    if late:
        what = f"the master ran a single thread when it forked; later began {_some(late)}"
    yield Finding("threads", False, what)


def _seal_names_native_threads(seen: Evidence) -> bool:
    """Whether `hazards` has said it: the seal looks at the same threads, from inside."""
    return seen.seal is not None and any("native thread" in what for what, _ in seen.seal.hazards)


def _in_workers(early: Sequence[Thread]) -> str:
    """Which of the master's threads workers have."""
    again = [t for t in early if starts_again(t.name, t.package.partition(" ")[0])]
    gone = [thread for thread in early if thread not in again]
    if not again:
        return f"workers do not have {_verb(gone, 'it', 'them')}"
    own = f"the libraries of {_some(again)} start their own in workers"
    return own if not gone else f"{own}; workers do not have {_some(gone)}"


def _kept_from_sealing(seen: Evidence, early: Sequence[Thread]) -> Finding:
    assert seen.seal is not None
    left = [name for name, why in seen.seal.left_out if why == _BESIDE]
    names = [thread for thread in early if thread.is_python and thread.name in seen.seal.reason]
    whose = f"; {_some(names)}" if any(thread.package for thread in names) else ""
    return Finding(
        "threads",
        True,
        f"{seen.seal.reason}{whose}",
        cost=f"the seal left out {', '.join(left) or 'steps'}",
        mend=_remedies(names or early),
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
        yield Finding("interpreter", False, "which Python this is could not be told")
    elif any(re.search(r"python3\.\d+t", f) for f in (*seen.files, *seen.command)):
        yield Finding(
            "interpreter",
            True,
            f"Python {version[0]}.{version[1]} without the GIL",
            cost="its heap cannot be sealed",
            mend="use the build with the GIL",
        )
    elif missing := _lacking(seen):
        yield _older(version, missing)
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


def _lacking(seen: Evidence) -> list[str]:
    """Steps that the interpreter does not have."""
    version = python_version(seen.files)
    return [step for step, first in FIRST_WITH.items() if version is not None and version < first]


def _older(version: tuple[int, int], missing: Sequence[str]) -> Finding:
    first = max(FIRST_WITH[step] for step in missing)
    return Finding(
        "interpreter",
        True,
        f"Python {version[0]}.{version[1]} " + " and ".join(_LACKS[step][0] for step in missing),
        cost="; ".join(_LACKS[step][1] for step in missing),
        mend=f"Python {first[0]}.{first[1]} or newer",
    )
