"""The seal: takes a policy's steps right before the fork and says what came of them.

Owns the order, the clock and what happens when a step fails. Invariant: whatever fails,
the process works on and may fork; the report says how much of it is sealed.
docs/seal.md tells users what changes; docs/internals/child-and-exit.md what follows.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pasture.errors import SealFailed, UnsupportedInterpreter
from pasture.fork_safety import close, survey, threads
from pasture.fork_safety.hazard import Hazard
from pasture.fork_safety.libraries import all_of
from pasture.interpreter import current, hint_for, left_out, native
from pasture.sealing import child, exit, gc_settings, headroom, unshared
from pasture.sealing import snapshot as snapshot_file
from pasture.sealing.policy import Policy, PrepareStep, find_policy
from pasture.sealing.report import COLLECTING, NO_MEMORY, NOT_BEGUN, SealReport, StepReport
from pasture.sealing.steps import (
    AFTER_FAILURE,
    BESIDE_RUNNING,
    HEAP_STEPS,
    IN_LITTLE_MEMORY,
    Counts,
    Noted,
)

if TYPE_CHECKING:
    from pasture.warmup.warmup import WarmUpReport

WarmUp = Callable[[], "WarmUpReport"]

HAS_LAZY_IMPORTS = hasattr(types, "LazyImportType")
"""Whether the language has lazy imports (PEP 810, CPython 3.15)."""

if HAS_LAZY_IMPORTS:  # now: a nearly full control group has no memory for it during a seal
    import_module("pasture.warmup.lazy_imports")

_rounds = 0


def seal(
    policy: str | Policy | None = None,
    *,
    allow_threads: bool = False,
    stop_agents: bool = False,
    keep_connections: bool = False,
    strict: bool = False,
    warm_up: WarmUp | None = None,
    snapshot: Path | None = None,
    census: Path | None = None,
) -> SealReport:
    """Take the steps of a policy before a fork, in the process that forks.

    Closes what must not cross a fork (see `before_fork`), then works on the heap. From
    then on each forked child takes the policy's steps for children and for the exit. May
    be called again after more was loaded, and in a child of a sealed process.

    Args:
        policy: its name, or one of your own; None is "seal".
        allow_threads: do not look whether other Python threads wait. Only for threads that
            are known to be blocked outside of Python until this returns.
        stop_agents: while the heap is worked on, stop agents that stop at each fork by themselves
            (ddtrace). Not in a function that is called in the course of a fork.
        keep_connections: leave connections to databases open, for a process that goes on using
            them. Its children forget them, and open their own.
        strict: raise if the process did not get sealed.
        warm_up: serves requests first, if the policy has a warm-up: a function without
            arguments that calls `pasture.warm_up`.
        snapshot: where to write what lies where, for `pasture explain`; None is where the
            variable PASTURE_SNAPSHOT says, or nowhere.
        census: old name of `snapshot`.

    Returns:
        What was done, counted and timed, and what was not and why.

    Raises:
        UnknownPolicy: no policy has that name; nothing was done.
        UnsupportedInterpreter: `strict`, and the policy cannot work on this interpreter.
        SealFailed: `strict`, and a step failed, there are other threads, or something is open that
            does not survive a fork (see `pasture.fork_safety.survey`).
    """
    chosen = find_policy(policy)
    interpreter = current()
    if warm_up is not None and interpreter.unsupported is None and "gather-code" in chosen.heap:
        native().forget_code_runs()  # what the warm-up runs is what a worker will run
    closing = partial(close.close_connections, keep=keep_connections)
    steps = [_prepare(name, warm_up, closing) for name in chosen.prepare if _exists(name)]
    steps += _survey(strict, [hazard for step in steps for hazard in step.hazards])
    gc_settings.remember_thresholds()
    reason = _obstacle(chosen, interpreter.unsupported)
    if reason is None:
        stops = stop_agents and chosen.needs_native
        with all_of(lambda library: library.while_sealing()) if stops else nullcontext():
            running = _running_threads(chosen, allow_threads)
            child.arm(chosen)  # first: an interrupt between two steps leaves a heap half sealed
            steps += _work_on_heap(chosen, running)
        steps += _layout(chosen)
        reason = _failure(chosen, steps) or running
    else:
        steps += [StepReport(name, skipped=NOT_BEGUN) for name in chosen.heap]
    path = snapshot or census or snapshot_file.path_for(os.getpid())
    if path is not None:
        steps += [_take_snapshot(path, chosen, interpreter.unsupported)]
    report = SealReport(interpreter, chosen.name, reason is None, reason, _rounds, tuple(steps))
    if strict:
        _insist(chosen, report)
    if report.sealed:
        unshared.watch()
    return report


def _survey(strict: bool, others: Sequence[Hazard]) -> list[StepReport]:
    """What a fork will break; a step of the report only where there is something to tell.

    Args:
        others: hazards that steps before it have found.

    Raises:
        SealFailed: `strict`, and there is, or it is not known.
    """
    start = perf_counter()
    try:
        found = survey.survey()
    except Exception as error:  # a MemoryError, under a limit
        failed = _describe(error)
        if strict:
            raise SealFailed(f"not known whether the process is safe to fork: {failed}") from error
        return [StepReport("survey", perf_counter() - start, failed=failed)]
    hazards = (*others, *found)
    if hazards and strict:
        raise SealFailed(
            f"the process is not safe to fork: {hazards[0].what}"
            + (f", and {len(hazards) - 1} more" if len(hazards) > 1 else ""),
            hint="\n".join(str(hazard) for hazard in hazards),
        )
    problems = tuple(str(hazard) for hazard in found)
    if not found:
        return []
    return [StepReport("survey", perf_counter() - start, problems=problems, hazards=found)]


def _exists(name: PrepareStep) -> bool:
    """Whether the language has what the step is for."""
    return name != "resolve-imports" or HAS_LAZY_IMPORTS


def _layout(policy: Policy) -> list[StepReport]:
    """What had to be left out; a step of the report only where something was."""
    problems = left_out() if policy.needs_native else ()
    return [StepReport("layout", problems=problems)] if problems else []


def _prepare(
    name: PrepareStep,
    warm_up: WarmUp | None,
    closing: Callable[[], tuple[Counts, tuple[str, ...]]],
) -> StepReport:
    if name == "warm-up" and warm_up is None:
        return StepReport(name, skipped="no requests were given")
    start = perf_counter()
    hazards: tuple[Hazard, ...] = ()
    try:
        if name == "warm-up" and warm_up is not None:
            counts, problems, hazards = _warm(warm_up)
        elif name == "resolve-imports":
            from pasture.warmup import lazy_imports

            with gc_settings.running():
                counts, problems = lazy_imports.resolve(
                    refusal=lambda: headroom.look().refusal("resolve-imports")
                )
        else:
            counts, problems = closing()
    except Exception as error:
        return StepReport(name, perf_counter() - start, failed=_describe(error))
    return StepReport(name, perf_counter() - start, counts, problems=problems, hazards=hazards)


def _warm(warm_up: WarmUp) -> tuple[Counts, tuple[str, ...], tuple[Hazard, ...]]:
    # With the collector off, the garbage of all requests would be there at once.
    with gc_settings.running():
        report = warm_up()
    return report.counts, report.problems, report.hazards


def _obstacle(policy: Policy, unsupported: str | None) -> str | None:
    """Why the heap must be left alone; None if it need not be."""
    if not policy.needs_native:
        return None
    if unsupported is not None:
        return unsupported
    return COLLECTING if native().is_collecting() else None


def _running_threads(policy: Policy, allowed: bool) -> str | None:
    """The other threads that are not proved to wait, in words; None if there are none."""
    if allowed or not policy.needs_native:
        return None
    running = [one for one in threads.look(native().python_threads()) if not one.waits]
    if not running:
        return None
    return f"{len(running)} other Python thread(s) running: {', '.join(map(str, running))}"


def _work_on_heap(policy: Policy, running: str | None) -> list[StepReport]:
    """Take the heap steps. Nothing is allocated in between that need not be.

    Args:
        running: threads beside which some steps are not safe; None if there are none.
    """
    global _rounds
    if policy.at_exit:
        exit.watch()
    _rounds += bool(policy.heap)
    done: list[StepReport] = []
    failed = False
    budget = headroom.look()
    with gc_settings.paused():
        for name in policy.heap:
            if policy.needs_native and native().is_collecting():  # another thread's, since
                done.append(StepReport(name, failed=COLLECTING))
                failed = True
                continue
            if failed and name not in AFTER_FAILURE:
                done.append(StepReport(name, skipped="an earlier step failed"))
                continue
            if running is not None and name not in BESIDE_RUNNING:
                done.append(StepReport(name, skipped="not beside a thread that runs"))
                continue
            step = _take_if_it_fits(name, budget)
            failed = failed or step.failed is not None
            done.append(step)
        if policy.at_exit and not (policy.needs_native and native().is_collecting()):
            exit.note_frozen_files()
    return done


def _take_if_it_fits(name: str, budget: headroom.Budget) -> StepReport:
    refusal = budget.refusal(name)
    if refusal is None:
        return _take(name)
    if name in IN_LITTLE_MEMORY:
        return replace(_take(name, IN_LITTLE_MEMORY[name]), note=f"built in: {refusal}")
    return StepReport(name, skipped=f"{NO_MEMORY}: {refusal}")


def _take(name: str, work: Callable[[], Counts | Noted] | None = None) -> StepReport:
    start = perf_counter()
    try:
        done = (work or HEAP_STEPS[name])()
    except NotImplementedError as error:
        return StepReport(name, skipped=str(error))
    except Exception as error:
        return StepReport(name, perf_counter() - start, failed=_describe(error))
    seconds = perf_counter() - start
    if isinstance(done, Noted):
        return StepReport(name, seconds, done.counts, note=done.note, problems=done.problems)
    return StepReport(name, seconds, done)


def _take_snapshot(path: Path, policy: Policy, unsupported: str | None) -> StepReport:
    """Last of all: objects do not move any more."""
    if unsupported is not None:
        return StepReport("snapshot", skipped=unsupported)
    refusal = headroom.look().refusal("snapshot")
    if refusal is not None:
        return StepReport("snapshot", skipped=f"{NO_MEMORY}: {refusal}")
    start = perf_counter()
    try:
        counts = {"records": snapshot_file.write(path, policy.name)}
    except (OSError, MemoryError) as error:
        return StepReport("snapshot", perf_counter() - start, problems=(_describe(error),))
    return StepReport("snapshot", perf_counter() - start, counts)


def _failure(policy: Policy, steps: list[StepReport]) -> str | None:
    if not policy.heap:
        return f"policy {policy.name} leaves the heap as it is"
    failed = [step.name for step in steps if step.failed and step.name in policy.heap]
    if any(step.failed == COLLECTING for step in steps):
        return COLLECTING
    if failed:
        return f"{failed[0]} failed"
    left_out = [step.name for step in steps if step.lacks_memory and step.name in policy.heap]
    return f"{NO_MEMORY} for {', '.join(left_out)}" if left_out else None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _insist(policy: Policy, report: SealReport) -> None:
    """Raise what `strict` promises."""
    if report.sealed or not policy.heap:
        return
    if policy.needs_native and report.interpreter.unsupported is not None:
        raise UnsupportedInterpreter(
            f"{report.interpreter} cannot be sealed: {report.reason}", hint=hint_for(report.reason)
        )
    raise SealFailed(
        f"the heap is not sealed: {report.reason}",
        hint="seal before any thread is started; the report of seal() without strict=True "
        "says what was done",
    )
