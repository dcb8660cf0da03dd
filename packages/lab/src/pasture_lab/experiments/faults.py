"""faults: the page faults of a worker by stack, and how many are the collector's.

Owns how faults are counted. The reader of `pasture explain --record` samples them, and `perf`
where that is installed. Setting, published figure and rule are in `faults.toml`; the site is
`instagram_site`'s.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from pasture.errors import NotMeasurable
from pasture_lab.engine import requirements
from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Measured
from pasture_lab.measurements import instagram_site
from pasture_lab.measurements.instagram_site import Variant
from pasture_lab.processes.client import SteadyLoad
from pasture_lab.processes.program import environment, run_to_end
from pasture_lab.processes.server import Server, ServerPlan, serving
from pasture_tools.launch.session import Group, tail

_COLLECTOR = "collector"
_OUT_OF_LINE = "pasture, out of line"
_UNKNOWN = "[unknown]"
_FUNCTIONS = (
    *("gc_collect", "collect_generations", "update_refs", "subtract_refs", "visit_decref"),
    *("visit_reachable", "visit_move_unreachable", "move_unreachable", "deduce_unreachable"),
    *("untrack_tuples", "move_legacy_finalizers", "_PyGC_", "gc_select_generation", "gc_list_"),
)
"""Functions of CPython's collector, or how they begin. CPython 3.11 to 3.15 Python/gc.c."""

_POLICIES = ("stock", "seal")


def _parts(options: Options) -> tuple[Part, ...]:
    seconds = 6.0 if options.quick else 15.0
    key = {"seconds": seconds, "load": instagram_site.LOAD}
    recorded = [
        Part(policy, seconds + 8, partial(_recorded, policy, seconds), key) for policy in _POLICIES
    ]
    with_perf = [
        Part(f"perf-{policy}", seconds + 8, partial(_by_perf, policy, seconds), key)
        for policy in _POLICIES
    ]
    return (*recorded, *with_perf)


def _plan(policy: str, more: Mapping[str, str]) -> ServerPlan:
    return Variant(policy, policy=policy, more=more).plan(
        instagram_site.WORKERS, instagram_site.LOAD
    )


def _recorded(policy: str, seconds: float, bench: Bench) -> Measured:
    """Faults by the function that wrote first, read as `pasture explain --record` does."""
    try:
        from pasture_tools.explain.causes import Cause
        from pasture_tools.explain.explain import explain
    except ImportError as error:
        raise NotMeasurable(
            f"{error.name} is not installed", hint="pip install 'pasture[lab]'"
        ) from None
    snapshot = bench.directory / "snapshot"
    with (
        serving(bench, _plan(policy, {"PASTURE_SNAPSHOT": str(snapshot)})) as server,
        SteadyLoad(server.port, instagram_site.RATE),
    ):
        found = explain(server.group.pid, None, record_s=seconds, tick=lambda: bench.pause(0))
    recording = found.recording
    assert recording is not None
    counts: Counter[str] = Counter()
    copied = 0
    for writer in recording.writers:
        stack = (writer.function, *writer.callers)
        unnamed = writer.cause is Cause.GC_HEADER and not is_named(writer.function)
        counts[_COLLECTOR if unnamed else group_of(stack)] += writer.faults
        copied += 0 if writer.cause is Cause.NEW_MEMORY else writer.faults
    return _measured(counts, recording.lost, {"copied": copied})


def _by_perf(policy: str, seconds: float, bench: Bench) -> Measured:
    """The faults, sampled and named by perf."""
    perf = requirements.find("perf")
    data = bench.directory / "perf.data"
    with serving(bench, _plan(policy, {})) as server:
        pids = ",".join(map(str, server.workers()))
        record = [
            *(perf, "record", "-q", "-e", "page-faults", "-c", "1", "-g", "-p", pids),
            *("-o", str(data), "--", "sleep", str(seconds)),
        ]
        _record(record, server, bench)
        script = [perf, "script", "-i", str(data), "-F", "pid,event,ip,sym"]
        text = run_to_end(bench, script, bench.log("perf-script"))
    counts = Counter(group_of(stack) for stack in perf_stacks(text))
    if not counts[_COLLECTOR] and counts[_UNKNOWN] * 2 > counts.total():
        raise NotMeasurable(
            "perf finds no names in this interpreter, whose symbols are stripped",
            hint="install its debug symbols",
        )
    return _measured(counts, lost=0)


def _record(command: list[str], server: Server, bench: Bench) -> None:
    """Run perf record until it ends by itself, with the site under load."""
    log = bench.log("perf-record")
    with (
        Group(command, log=log, env=environment()) as group,
        SteadyLoad(server.port, instagram_site.RATE),
    ):
        while (code := group.exit_code()) is None:
            bench.pause(0.1)
    if code != 0:
        text = log.read_text(errors="replace")
        raise NotMeasurable(f"perf cannot record here: {tail(text, 1).strip()}")


def perf_stacks(text: str) -> Iterable[tuple[str, ...]]:
    """The stacks in what `perf script` printed, innermost function first, kernel left out."""
    for block in text.split("\n\n"):
        frames = [line.split(None, 1) for line in block.splitlines() if line[:1] == "\t"]
        names = [frame[1].strip() for frame in frames if len(frame) == 2 and _in_user_space(frame)]
        if names:
            yield tuple(names)


def _in_user_space(frame: list[str]) -> bool:
    with contextlib.suppress(ValueError):
        return int(frame[0], 16) < 1 << 63
    return False


def group_of(stack: tuple[str, ...]) -> str:
    """Whose fault it is: the collector's if it is on the stack, else the innermost function's.

    The out-of-line collector is a part of pasture's extension, and its faults are new memory.
    """
    if any(name.startswith(_FUNCTIONS) for name in stack):
        return _COLLECTOR
    return _OUT_OF_LINE if stack[0].startswith("_native.") else stack[0]


def is_named(function: str) -> bool:
    """Whether a function has a name, and not only a place in its file."""
    return "+0x" not in function and function not in ("?", _UNKNOWN)


def _measured(counts: Counter[str], lost: int, more: Mapping[str, float] | None = None) -> Measured:
    faults = sum(counts.values())
    if not faults:
        raise NotMeasurable("no page fault was sampled")
    others = [count for name, count in counts.items() if name != _COLLECTOR]
    shares = {name: count / faults for name, count in counts.most_common(30)}
    return Measured(
        {
            "faults": faults,
            **(more or {}),
            "collector_share": counts[_COLLECTOR] / faults,
            "collector_to_next": counts[_COLLECTOR] / max(others, default=1),
        },
        names={"faults": shares},
        notes=(f"{lost} samples were lost",) if lost else (),
    )


EXPERIMENT = read_experiment(Path(__file__).with_suffix(".toml"), parts=_parts)
