"""The seal: takes a policy's steps right before the fork and reports them.

Owns the order, the clock and what happens when a step fails. Invariant: after any failure the
process works on and may fork; the report says which steps were taken. docs/seal.md says what
changes for users; docs/internals/child-and-exit.md what follows.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pasture import off
from pasture.errors import SealFailed, UnsupportedInterpreter
from pasture.fork_safety import close, survey, threads
from pasture.fork_safety.libraries import all_of
from pasture.fork_safety.threads import Neighbour
from pasture.interpreter import Interpreter, current, hint_for, native
from pasture.log_lines import some
from pasture.own_values import generators
from pasture.reasons import Hazard, Reason
from pasture.sealing import child, exit, gc_settings, headroom
from pasture.sealing import snapshot as snapshot_file
from pasture.sealing.policy import Policy, PrepareStep, find_policy
from pasture.sealing.report import SealReport, StepReport, show_report
from pasture.sealing.steps import HEAP_STEPS, Counts, HeapStep, StepResult, left_out_besides

if TYPE_CHECKING:
    from pasture.warmup.warmup import WarmUpReport

WarmUp = Callable[[], "WarmUpReport"]

HAS_LAZY_IMPORTS = hasattr(types, "LazyImportType")
"""Whether the language has lazy imports (PEP 810, CPython 3.15)."""

if HAS_LAZY_IMPORTS:  # imported now: a nearly full control group has no memory for it during a seal
    import_module("pasture.warmup.lazy_imports")

_COLLECTING = "a garbage collection is running, which hides objects: called by a finalizer?"
_NO_MEMORY = "no memory"

_Why = tuple[Reason, str]
"""Why the heap is not sealed: a code and a sentence."""

_rounds = 0


def seal(
    policy: str | Policy | None = None,
    *,
    allow_threads: bool = False,
    stop_agents: bool = False,
    keep_connections: bool = False,
    strict: bool = False,
    accept: Collection[Reason] = (),
    warm_up: WarmUp | None = None,
    snapshot: Path | None = None,
) -> SealReport:
    """Take the steps of a policy before a fork, in the process that forks.

    Closes connections that must not cross a fork (see `before_fork`), then works on the heap. Each
    child then takes the policy's steps for children and for the exit. May be called again after
    further imports, and in a child. With `PASTURE=off` in the environment it does nothing, and the
    report says so.

    Args:
        policy: its name, or your own `Policy`; None is "seal".
        allow_threads: do not check that other Python threads wait. Only for threads that are
            blocked outside of Python until this returns.
        stop_agents: stop agents that stop at each fork themselves (ddtrace). Not in a hook of a
            fork.
        keep_connections: leave connections to databases open, for a process that goes on using
            them. Its children open their own.
        strict: raise if the process did not get sealed.
        accept: kinds of hazards for which `strict` does not raise.
        warm_up: a function without arguments that calls `pasture.warm_up`, if the policy has a
            warm-up.
        snapshot: file for the heap snapshot of `pasture explain`; None is PASTURE_SNAPSHOT, or no
            file.

    Returns:
        A report: the steps with counts and times, and the steps that were left out and why.

    Raises:
        UnknownPolicy: a policy of that name does not exist; the process is unchanged.
        UnsupportedInterpreter: `strict`, and the policy cannot work on this interpreter.
        SealFailed: `strict`, and a step failed, there are other threads, or something is open that
            does not survive a fork (see `pasture.fork_safety.survey`).
    """
    interpreter = current()
    if (is_off := off.why()) is not None:
        name = policy if isinstance(policy, str) else find_policy(policy).name
        return SealReport(interpreter, name, False, is_off, round=0, steps=(), why=Reason.OFF)
    chosen = find_policy(policy)
    if warm_up is not None and interpreter.unsupported is None and "gather-code" in chosen.heap:
        native().forget_code_runs()  # what the warm-up runs is what a worker will run
    closing = partial(close.close_connections, keep=keep_connections)
    there = [name for name in chosen.prepare if name != "resolve-imports" or HAS_LAZY_IMPORTS]
    steps = [_prepare(name, warm_up, closing) for name in there]
    look = survey.survey_without_garbage if "collect" in chosen.heap else survey.survey
    others = [hazard for step in steps for hazard in step.hazards]
    steps += _survey(look, strict, accept, others)
    if seeded := generators.hazards():  # as without pasture: the fork is allowed
        steps.append(StepReport("generators", hazards=seeded))
    gc_settings.remember_thresholds()
    why = _obstacle(chosen, interpreter)
    running: tuple[Neighbour, ...] = ()
    if why is None:
        stops = stop_agents and chosen.needs_native
        with all_of(lambda library: library.while_sealing()) if stops else nullcontext():
            running = _running_threads(chosen, allow_threads)
            child.arm(chosen)  # early: an interrupt between two steps leaves a heap half sealed
            steps += _work_on_heap(chosen, beside_running=bool(running))
        if chosen.needs_native and (left_out := left_out_besides()):
            steps.append(StepReport("layout", problems=left_out))
        why = _failure(chosen, steps) or _beside(running)
    else:
        steps += [_not_taken(name, Reason.NOT_STARTED, "not started") for name in chosen.heap]
    path = snapshot or snapshot_file.path_for(os.getpid())
    if path is not None:
        steps += [_take_snapshot(path, chosen, interpreter)]
    code, reason = why or (None, None)
    report = SealReport(
        interpreter,
        chosen.name,
        why is None,
        reason,
        _rounds,
        tuple(steps),
        why=code,
        threads=tuple(thread.name for thread in running),
    )
    show_report(report)
    if strict:
        _insist(chosen, report)
    if report.sealed:
        child.watch()
    return report


def _survey(
    look: Callable[[], Sequence[Hazard]],
    strict: bool,
    accept: Collection[Reason],
    others: Sequence[Hazard],
) -> list[StepReport]:
    """The hazards of a fork; a step of the report only if there are hazards.

    SealFailed: `strict`, and there are hazards besides `others`, found before; or the survey
    failed.
    """
    start = perf_counter()
    try:
        found = tuple(look())
    except Exception as error:  # a MemoryError, under a limit
        failed = _describe(error)
        if strict:
            raise SealFailed(f"the check for hazards of a fork failed: {failed}") from error
        return [_failed("survey", failed, perf_counter() - start)]
    hazards = [hazard for hazard in (*others, *found) if hazard.kind not in accept]
    if hazards and strict:
        raise SealFailed(
            f"the process is not safe to fork: {some([hazard.what for hazard in hazards], 1)}",
            hint="\n".join(str(hazard) for hazard in hazards),
        )
    problems = tuple(str(hazard) for hazard in found)
    if not found:
        return []
    return [StepReport("survey", perf_counter() - start, problems=problems, hazards=found)]


def _prepare(
    name: PrepareStep, warm_up: WarmUp | None, closing: Callable[[], tuple[Counts, tuple[str, ...]]]
) -> StepReport:
    if name == "warm-up" and warm_up is None:
        return _not_taken(name, Reason.NO_REQUESTS, "no requests were given")
    start = perf_counter()
    hazards: tuple[Hazard, ...] = ()
    try:
        if name == "warm-up" and warm_up is not None:
            # With the collector off, the garbage of all requests would pile up.
            with gc_settings.running():
                report = warm_up()
            counts, problems, hazards = report.counts, report.problems, report.hazards
        elif name == "resolve-imports":
            from pasture.warmup import lazy_imports

            with gc_settings.running():
                counts, problems = lazy_imports.resolve(
                    refusal=lambda: headroom.look().refusal(headroom.RESOLVE_IMPORTS)
                )
        else:
            counts, problems = closing()
    except Exception as error:
        return _failed(name, _describe(error), perf_counter() - start)
    return StepReport(name, perf_counter() - start, counts, problems=problems, hazards=hazards)


def _not_taken(name: str, why: Reason, sentence: str) -> StepReport:
    return StepReport(name, skipped=sentence, why=why)


def _failed(
    name: str, sentence: str, seconds: float = 0.0, why: Reason = Reason.ERROR
) -> StepReport:
    return StepReport(name, seconds, failed=sentence, why=why)


def _obstacle(policy: Policy, interpreter: Interpreter) -> _Why | None:
    """The reason not to touch the heap, or None."""
    if not policy.needs_native:
        return None
    if interpreter.unsupported is not None:
        return interpreter.why or Reason.UNSUPPORTED, interpreter.unsupported
    return (Reason.COLLECTING, _COLLECTING) if native().is_collecting() else None


def _running_threads(policy: Policy, allowed: bool) -> tuple[Neighbour, ...]:
    """The other threads that are not proved to wait."""
    if allowed or not policy.needs_native:
        return ()
    return tuple(one for one in threads.look(native().python_threads()) if not one.waits)


def _beside(running: Sequence[Neighbour]) -> _Why | None:
    if not running:
        return None
    named = ", ".join(map(str, running))
    return Reason.THREAD_RUNS, f"{len(running)} other Python thread(s) running: {named}"


def _work_on_heap(policy: Policy, *, beside_running: bool) -> list[StepReport]:
    """Take the heap steps, only the safe ones while a thread runs; allocate little in between."""
    global _rounds
    if policy.at_exit:
        exit.watch()
    _rounds += bool(policy.heap)
    done: list[StepReport] = []
    failed, needs_native = False, policy.needs_native
    budget = headroom.look()
    with gc_settings.paused():
        for name in policy.heap:
            row = HEAP_STEPS[name]
            if needs_native and native().is_collecting():  # by another thread, meanwhile
                step = _failed(name, _COLLECTING, why=Reason.COLLECTING)
            elif failed and not row.after_failure:
                step = _not_taken(name, Reason.EARLIER_STEP, "an earlier step failed")
            elif beside_running and not row.beside_running:
                step = _not_taken(name, Reason.THREAD_RUNS, "not while a thread runs")
            else:
                step = _take_if_it_fits(name, row, budget)
            failed = failed or step.failed is not None
            done.append(step)
        if policy.at_exit and not (needs_native and native().is_collecting()):
            exit.note_frozen_files()
    return done


def _take_if_it_fits(name: str, row: HeapStep, budget: headroom.Budget) -> StepReport:
    refusal = None if budget.headroom is None else budget.refusal(row.peak)
    if refusal is None:
        return _take(name, row, row.work)
    if row.in_little_memory is not None:
        return replace(_take(name, row, row.in_little_memory), note=f"built in: {refusal}")
    return _not_taken(name, Reason.NO_MEMORY, f"{_NO_MEMORY}: {refusal}")


def _take(name: str, row: HeapStep, work: Callable[[], Counts | StepResult]) -> StepReport:
    start = perf_counter()
    try:
        done = work()
    except NotImplementedError as error:
        is_older = row.lack is not None and sys.version_info[:2] < row.lack.first
        return _not_taken(name, Reason.VERSION if is_older else Reason.UNAVAILABLE, str(error))
    except Exception as error:
        return _failed(name, _describe(error), perf_counter() - start)
    seconds = perf_counter() - start
    if isinstance(done, StepResult):
        return StepReport(name, seconds, **done._asdict())
    return StepReport(name, seconds, done)


def _take_snapshot(path: Path, policy: Policy, interpreter: Interpreter) -> StepReport:
    """Take the snapshot, as the last step: objects do not move any more."""
    if interpreter.unsupported is not None:
        why = interpreter.why or Reason.UNSUPPORTED
        return _not_taken("snapshot", why, interpreter.unsupported)
    refusal = headroom.look().refusal(headroom.SNAPSHOT)
    if refusal is not None:
        return _not_taken("snapshot", Reason.NO_MEMORY, f"{_NO_MEMORY}: {refusal}")
    start = perf_counter()
    try:
        counts = {"records": snapshot_file.write(path, policy.name)}
    except (OSError, MemoryError) as error:
        return StepReport("snapshot", perf_counter() - start, problems=(_describe(error),))
    return StepReport("snapshot", perf_counter() - start, counts)


def _failure(policy: Policy, steps: list[StepReport]) -> _Why | None:
    if not policy.heap:
        return Reason.POLICY, f"policy {policy.name} leaves the heap as it is"
    failed = [step.name for step in steps if step.failed and step.name in policy.heap]
    if any(step.why is Reason.COLLECTING for step in steps):
        return Reason.COLLECTING, _COLLECTING
    if failed:
        return Reason.ERROR, f"{failed[0]} failed"
    no_memory = [step for step in steps if step.why is Reason.NO_MEMORY]
    names = ", ".join(step.name for step in no_memory if step.name in policy.heap)
    return (Reason.NO_MEMORY, f"{_NO_MEMORY} for {names}") if names else None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _insist(policy: Policy, report: SealReport) -> None:
    if report.sealed or not policy.heap:
        return
    if policy.needs_native and report.interpreter.unsupported is not None:
        raise UnsupportedInterpreter(
            f"{report.interpreter} cannot be sealed: {report.reason}", hint=hint_for(report.why)
        )
    raise SealFailed(
        f"the heap is not sealed: {report.reason}",
        hint="seal before any thread is started; the report of seal() without strict=True "
        "says what was done",
    )
