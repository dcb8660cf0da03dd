"""The order of the steps, and what happens when one cannot run. No heap is touched here."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pasture import interpreter
from pasture.errors import SealFailed, UnknownPolicy, UnsupportedInterpreter
from pasture.fork_safety import close, libraries, survey, threads
from pasture.fork_safety.library import Library
from pasture.fork_safety.threads import Neighbour
from pasture.interpreter import Interpreter
from pasture.reasons import Hazard, Reason
from pasture.sealing import child, exit, gc_settings, seal
from pasture.sealing.policy import POLICIES, Policy
from pasture.sealing.report import SealReport, StepReport
from pasture.sealing.steps import HEAP_STEPS, HeapStep, left_out_besides
from pasture.warmup import lazy_imports
from pasture.warmup.warmup import WarmUpReport, warm_up

pytestmark = pytest.mark.interpreter

SUPPORTED = Interpreter("CPython", "3.14.2", False, True, None)


@dataclass
class Heap:
    """A heap whose steps only note that they ran; `fails` maps a step to its exception."""

    ran: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    neighbours: tuple[Neighbour, ...] = ()
    armed: list[Policy] = field(default_factory=list)
    steps: dict[str, HeapStep] = field(default_factory=dict)

    def take(self, name: str) -> dict[str, int]:
        self.ran.append(name)
        if name in self.fails:
            raise self.fails[name]
        return {"taken": 1}


@pytest.fixture
def heap(monkeypatch: pytest.MonkeyPatch) -> Heap:
    state = Heap()
    state.steps = {
        name: row._replace(work=partial(state.take, name)) for name, row in HEAP_STEPS.items()
    }
    monkeypatch.setattr(seal, "HEAP_STEPS", state.steps)
    monkeypatch.setattr(seal, "current", lambda: SUPPORTED)
    extension = SimpleNamespace(
        python_threads=lambda: 1 + len(state.neighbours),
        is_collecting=lambda: False,
        forget_code_runs=lambda: state.ran.append("forget"),
    )
    monkeypatch.setattr(seal, "native", lambda: extension)
    monkeypatch.setattr(child, "arm", state.armed.append)
    monkeypatch.setattr(survey, "survey", lambda: [])
    monkeypatch.setattr(threads, "look", lambda states: state.neighbours)
    monkeypatch.setattr(exit, "watch", lambda: state.ran.append("watch"))
    monkeypatch.setattr(gc_settings, "_thresholds", None)
    monkeypatch.setattr(close, "_hooks", [lambda: state.ran.append("hook")])
    monkeypatch.setattr(seal, "_rounds", 0)
    monkeypatch.setattr(seal, "HAS_LAZY_IMPORTS", False)
    return state


def names(report: SealReport, attribute: str) -> list[str]:
    return [step.name for step in report.steps if getattr(step, attribute) is not None]


def step(report: SealReport, name: str) -> StepReport:
    found = report.step(name)
    assert found is not None
    return found


def test_steps_run_in_the_order_of_the_policy(heap: Heap) -> None:
    report = seal.seal()
    assert heap.ran == ["hook", "watch", *POLICIES["seal"].heap]
    assert report.sealed and report.reason is None
    assert [step.name for step in report.steps] == [
        "warm-up",
        "close-connections",
        *POLICIES["seal"].heap,
    ]


def test_lazy_imports_are_made_where_there_are_any(
    heap: Heap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "HAS_LAZY_IMPORTS", True)
    monkeypatch.setattr(lazy_imports, "resolve", lambda **_: ({"resolved": 2, "pending": 1}, ()))
    assert step(seal.seal(), "resolve-imports").counts == {"resolved": 2, "pending": 1}


def test_warm_up_comes_first_and_only_code_it_runs_counts_as_run(heap: Heap) -> None:
    def application(environ: object, start_response: Any) -> list[bytes]:
        heap.ran.append("warm-up")
        start_response("200 OK", [])
        return []

    report = seal.seal(warm_up=lambda: warm_up(application, ["/", "/two"]))
    assert heap.ran[:4] == ["forget", "warm-up", "warm-up", "hook"]
    assert step(report, "warm-up").counts == {"requests": 2, "failed": 0}


def test_warm_up_runs_with_the_collector_on(heap: Heap) -> None:
    seen: list[bool] = []

    def serve() -> WarmUpReport:
        seen.append(gc.isenabled())
        return WarmUpReport()

    gc.disable()
    try:
        seal.seal(warm_up=serve)
        assert seen == [True]
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_policy_without_warm_up_serves_nothing(heap: Heap) -> None:
    seal.seal("freeze", warm_up=lambda: pytest.fail("it must not run"))


def test_a_failing_warm_up_does_not_keep_the_heap_from_being_sealed(heap: Heap) -> None:
    def serve() -> WarmUpReport:
        raise ZeroDivisionError

    report = seal.seal(warm_up=serve)
    assert step(report, "warm-up").failed == "ZeroDivisionError"
    assert step(report, "warm-up").why is Reason.ERROR
    assert report.sealed


def test_a_step_that_does_not_exist_here_is_skipped_with_its_reason(heap: Heap) -> None:
    heap.fails["immortalize"] = NotImplementedError("not before 3.12")
    report = seal.seal()
    assert report.sealed
    found = step(report, "immortalize")
    assert found.skipped == "not before 3.12"
    is_older = sys.version_info < (3, 12)
    assert found.why is (Reason.VERSION if is_older else Reason.UNAVAILABLE)
    assert heap.ran[-1] == POLICIES["seal"].heap[-1]


def test_after_a_failure_the_heap_is_still_frozen_but_not_plugged(heap: Heap) -> None:
    heap.fails["immortalize"] = MemoryError()
    report = seal.seal()
    assert heap.ran[-2:] == ["immortalize", "freeze"]
    assert not report.sealed and report.reason == "immortalize failed"
    assert report.why is Reason.ERROR
    assert step(report, "plug-malloc").why is Reason.EARLIER_STEP
    assert names(report, "failed") == ["immortalize"]
    order = POLICIES["seal"].heap
    after = order[order.index("freeze") + 1 :]
    assert "plug-malloc" in after
    assert names(report, "skipped") == ["warm-up", *after]


def test_after_a_failure_children_still_leave_as_the_heap_is_half_sealed(heap: Heap) -> None:
    heap.fails["plug-malloc"] = MemoryError()
    seal.seal()
    assert heap.armed == [POLICIES["seal"]]


LOOKOUT = Neighbour("lookout", waits=False, stack=("watch.py:7 in look",))


def test_a_running_thread_is_named_and_steps_that_need_it_to_wait_are_left_out(
    heap: Heap,
) -> None:
    heap.neighbours = (LOOKOUT, Neighbour("sleeper", waits=True))
    report = seal.seal()
    assert not report.sealed
    assert report.reason == "1 other Python thread(s) running: lookout (watch.py:7 in look)"
    assert (report.why, report.threads) == (Reason.THREAD_RUNS, ("lookout",))
    assert {one.why for one in report.steps} == {None, Reason.NO_REQUESTS, Reason.THREAD_RUNS}
    taken = [name for name in POLICIES["seal"].heap if HEAP_STEPS[name].beside_running]
    assert heap.ran == ["hook", "watch", *taken]
    assert "immortalize" not in taken
    assert set(names(report, "skipped")) == {"warm-up", *POLICIES["seal"].heap} - set(taken)
    assert heap.armed == [POLICIES["seal"]], "the heap is frozen: children leave"


def test_threads_that_wait_keep_nothing_from_being_sealed(heap: Heap) -> None:
    heap.neighbours = (Neighbour("sleeper", waits=True),) * 3
    assert seal.seal().sealed
    assert heap.ran[-1] == POLICIES["seal"].heap[-1]


def test_threads_can_be_allowed(heap: Heap) -> None:
    heap.neighbours = (LOOKOUT,)
    assert seal.seal(allow_threads=True).sealed


def test_agents_are_stopped_around_the_steps_on_the_heap_if_that_is_asked_for(
    heap: Heap, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stopped() -> Iterator[None]:
        heap.ran.append("stop")
        yield
        heap.ran.append("start")

    monkeypatch.setattr(libraries, "LIBRARIES", (Library(while_sealing=stopped),))
    seal.seal()
    steps = [name for name in heap.ran if name in heap.steps]
    assert heap.ran == ["hook", "watch", *steps]
    heap.ran.clear()
    seal.seal(stop_agents=True)
    assert heap.ran == ["hook", "stop", "watch", *steps, "start"]


def test_freezing_alone_does_not_mind_threads(heap: Heap) -> None:
    heap.neighbours = (LOOKOUT,)
    assert seal.seal("warm-freeze").sealed


def test_an_unsupported_interpreter_leaves_the_heap_alone(
    heap: Heap, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Interpreter("PyPy", "7.3", False, False, "another heap", Reason.UNSUPPORTED)
    monkeypatch.setattr(seal, "current", lambda: foreign)
    report = seal.seal()
    assert (report.sealed, report.reason) == (False, "another heap")
    assert (report.why, step(report, "freeze").why) == (Reason.UNSUPPORTED, Reason.NOT_STARTED)
    assert heap.ran == ["hook"]
    with pytest.raises(UnsupportedInterpreter, match="another heap"):
        seal.seal(strict=True)


def test_a_survey_that_fails_is_reported_and_raised_by_strict_alone(
    heap: Heap, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(survey, "survey", fail)
    report = seal.seal()
    assert report.sealed
    assert [step.failed for step in report.steps if step.name == "survey"] == ["MemoryError"]
    with pytest.raises(SealFailed, match="the check for hazards of a fork failed"):
        seal.seal(strict=True)


@pytest.mark.parametrize(("policy", "looks"), [("seal", 2), ("freeze", 1)])
def test_garbage_is_no_hazard_where_the_policy_collects_it(
    heap: Heap, monkeypatch: pytest.MonkeyPatch, policy: str, looks: int
) -> None:
    answers = [(Hazard("the connection of an ended thread", ""),), ()]
    monkeypatch.setattr(survey, "survey", lambda: answers.pop(0))
    report = seal.seal(policy)
    assert len(answers) == 2 - looks
    assert any(step.name == "survey" for step in report.steps) == (looks == 1)


def test_strict_raises_after_a_failure(heap: Heap) -> None:
    heap.fails["plug-malloc"] = MemoryError()
    with pytest.raises(SealFailed, match="plug-malloc failed"):
        seal.seal(strict=True)


def test_strict_raises_when_threads_run(heap: Heap) -> None:
    heap.neighbours = (LOOKOUT,)
    with pytest.raises(SealFailed, match="lookout"):
        seal.seal(strict=True)


def test_strict_is_content_with_a_policy_that_seals_nothing(heap: Heap) -> None:
    assert not seal.seal("stock", strict=True).sealed


def test_stock_closes_connections_and_leaves_the_heap(heap: Heap) -> None:
    report = seal.seal("stock")
    assert heap.ran == ["hook"]
    assert report.reason == "policy stock leaves the heap as it is"
    assert report.why is Reason.POLICY


def test_an_unknown_policy_is_refused_before_anything_is_done(heap: Heap) -> None:
    with pytest.raises(UnknownPolicy):
        seal.seal("seel")
    assert heap.ran == []


def test_the_collector_rests_during_the_steps_and_is_on_again_afterwards(heap: Heap) -> None:
    seen: list[bool] = []

    def look() -> dict[str, int]:
        seen.append(gc.isenabled())
        return {}

    heap.steps["freeze"] = HEAP_STEPS["freeze"]._replace(work=look)
    seal.seal(Policy("own", heap=("freeze",)))
    assert seen == [False]
    assert gc.isenabled()


def test_an_interpreter_without_the_extension_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter.native.cache_clear()
    monkeypatch.setattr(interpreter, "_native", None)
    monkeypatch.setattr(interpreter, "_IMPORT_ERROR", "no such file", raising=False)
    assert "no such file" in str(interpreter.current().unsupported)
    with pytest.raises(UnsupportedInterpreter, match="no such file"):
        interpreter.native()


def test_a_layout_that_differs_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("the collector's lists are elsewhere")

    extension = SimpleNamespace(UNSUPPORTED=None, HAS_IMMORTALITY=True, check_layout=refuse)
    monkeypatch.setattr(interpreter, "_native", extension)
    assert interpreter.current().unsupported == "the collector's lists are elsewhere"


def test_what_is_left_out_beside_the_steps_is_reported_without_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [("collections out of line", "gc.callbacks moved"), ("immortal objects", "flags moved")]
    extension = SimpleNamespace(
        UNSUPPORTED=None,
        HAS_IMMORTALITY=True,
        check_layout=lambda: None,
        left_out=lambda: parts,
    )
    monkeypatch.setattr(interpreter, "_native", extension)
    assert left_out_besides() == ("no collections out of line: gc.callbacks moved",)


def test_an_extension_that_does_not_load_comes_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreter.native.cache_clear()
    monkeypatch.setattr(interpreter, "_native", None)
    monkeypatch.setattr(interpreter, "_IMPORT_ERROR", "undefined symbol", raising=False)
    assert interpreter.BUILD_HERE in str(interpreter.current().unsupported)
    with pytest.raises(UnsupportedInterpreter) as caught:
        interpreter.native()
    assert caught.value.hint == ""
