"""cache: misses and instructions a cycle under load, stock against the policies.

Setting, published figures and rules are in `cache.toml`. Where the processor's counters cannot be
read, as in most virtual machines, that is said; beside it stands a simulation of the collector
by cachegrind, which is named as one and decides nothing.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from functools import partial
from pathlib import Path

from pasture.errors import NotMeasurable, ServerFailed
from pasture_lab.engine import requirements
from pasture_lab.engine.description import read_experiment
from pasture_lab.engine.experiment import Bench, Options, Part
from pasture_lab.engine.figures import Figures, Measured
from pasture_lab.measurements import instagram_site
from pasture_lab.measurements.instagram_site import Variant
from pasture_lab.processes.client import burst
from pasture_lab.processes.program import environment, path_of, run_to_end
from pasture_lab.processes.server import Server, serving
from pasture_tools.launch.session import Group

_EVENTS = ("cache-misses", "cache-references", "instructions", "cycles")
_VARIANTS = (
    Variant("stock"),
    Variant("threshold-0-leave", gc="threshold-0-leave"),
    Variant("seal", policy="seal"),
)
_OBJECTS, _COLLECTIONS = 12_000, 2
_LAST_LEVEL = "2097152,16,64"
"""Of the simulated machine: 2 MB hold one of the heaps with its lists, and not two."""

_SIMULATED = ("stock", "out-of-line")


def _parts(options: Options) -> tuple[Part, ...]:
    requests = 600 if options.quick else 6000
    counted = [
        Part(
            variant.name,
            1 if _cannot_count() else 6 + requests / 300,
            partial(_counted, variant, requests),
            {"requests": requests, "load": instagram_site.LOAD},
        )
        for variant in _VARIANTS
    ]
    key = {"objects": _OBJECTS, "collections": _COLLECTIONS, "cache": _LAST_LEVEL}
    simulated = [
        Part(f"simulation-{how}-{collector}", 14, partial(_simulated, how, collector), key)
        for collector in _SIMULATED
        for how in ("shared", "unshared")
    ]
    return (*counted, *simulated)


def _cannot_count() -> bool:
    """Whether perf is missing, for the estimate."""
    try:
        requirements.find("perf")
    except NotMeasurable:
        return True
    return not Path("/sys/bus/event_source/devices/cpu").exists()


def _counted(variant: Variant, requests: int, bench: Bench) -> Measured:
    """The processor's counters for the workers while they serve."""
    requirements.require_modules(("django", "pyuwsgi"))
    perf = requirements.find("perf")
    _require_counters(perf, bench)
    with serving(bench, variant.plan(instagram_site.WORKERS, instagram_site.LOAD)) as server:
        burst(server.port, requests // 4)
        counts = read_counts(_stat(perf, server, requests, bench))
    missing = [event for event in _EVENTS if event not in counts]
    if missing:
        raise NotMeasurable(f"not supported by this machine: {', '.join(missing)}")
    return Measured(
        {
            "misses_a_request": counts["cache-misses"] / requests,
            "miss_rate": counts["cache-misses"] / counts["cache-references"],
            "instructions_a_cycle": counts["instructions"] / counts["cycles"],
        }
    )


def _require_counters(perf: str, bench: Bench) -> None:
    """Raise NotMeasurable unless the processor's counters can be read."""
    command = [perf, "stat", "-x", ";", "-e", ",".join(_EVENTS), "true"]
    try:
        counts = read_counts(run_to_end(bench, command, bench.log("perf-stat")))
    except ServerFailed as error:
        raise NotMeasurable(f"perf cannot count here: {error.message}") from None
    missing = [event for event in _EVENTS if event not in counts]
    if missing:
        raise NotMeasurable(
            f"not supported by this machine: it has no hardware counters for {', '.join(missing)}"
        )


def _stat(perf: str, server: Server, requests: int, bench: Bench) -> str:
    pids = ",".join(map(str, server.workers()))
    out = bench.directory / "counts"
    command = [perf, "stat", "-x", ";", "-o", str(out), "-e", ",".join(_EVENTS), "-p", pids]
    with Group(command, log=bench.log("perf-stat"), env=environment()) as group:
        bench.pause(0.3)
        burst(server.port, requests)
        os.kill(group.pid, signal.SIGINT)
        while group.exit_code() is None:
            bench.pause(0.05)
    return out.read_text()


def read_counts(text: str) -> dict[str, float]:
    """Events and their counts, as `perf stat -x ';'` prints them; those without are left out."""
    found = {}
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) > 2 and fields[0].replace(".", "", 1).isdigit():
            found[fields[2].split(":")[0]] = float(fields[0])
    return found


def _simulated(how: str, collector: str, bench: Bench) -> Measured:
    """Misses of the last level a visited object, without what building the heaps costs."""
    valgrind = requirements.find("valgrind")
    refs, misses = _cachegrind(valgrind, how, collector, _COLLECTIONS, bench)
    refs_before, misses_before = _cachegrind(valgrind, how, collector, 0, bench)
    visited = 2 * _OBJECTS * _COLLECTIONS
    return Measured(
        {
            # To what the two runs agree on: start-up differs by some misses from run to run.
            "misses_an_object": round((misses - misses_before) / visited, 2) + 0.0,
            "references_an_object": round((refs - refs_before) / visited, 2),
        }
    )


def _cachegrind(
    valgrind: str, how: str, collector: str, collections: int, bench: Bench
) -> tuple[int, int]:
    """Data references and misses of the last level."""
    out = bench.directory / f"cachegrind.{collections}"
    command = [
        valgrind, "--tool=cachegrind", "--cache-sim=yes", f"--LL={_LAST_LEVEL}",
        f"--cachegrind-out-file={out}", sys.executable, str(path_of("cache_heap")),
        how, str(_OBJECTS), str(collections), collector,
    ]  # fmt: skip
    try:
        run_to_end(bench, command, bench.log(f"cachegrind-{collections}"))
    except ServerFailed as error:
        raise NotMeasurable(f"this interpreter does not run in valgrind: {error.message}") from None
    bench.report(0.5)
    return read_cachegrind(out.read_text())


def read_cachegrind(text: str) -> tuple[int, int]:
    """Data references and misses of the last level, from a file of cachegrind's.

    Raises:
        NotMeasurable: it is none with a simulated cache.
    """
    names = re.search(r"^events: (.*)$", text, re.MULTILINE)
    values = re.search(r"^summary: (.*)$", text, re.MULTILINE)
    if names is None or values is None or "DLmr" not in names[1]:
        raise NotMeasurable("valgrind simulated no cache", hint="use valgrind 3.18 or newer")
    counts = dict(zip(names[1].split(), map(int, values[1].split()), strict=False))
    return counts["Dr"] + counts["Dw"], counts["DLmr"] + counts["DLmw"]


def _derive(figures: Figures) -> Figures:
    found = {}
    for name in ("threshold-0-leave", "seal"):
        for figure in ("miss_rate", "instructions_a_cycle"):
            if f"{name}.{figure}" in figures and figures.get(f"stock.{figure}"):
                found[f"{name}.{figure}_ratio"] = (
                    figures[f"{name}.{figure}"] / figures[f"stock.{figure}"]
                )
    return found


EXPERIMENT = read_experiment(
    Path(__file__).with_suffix(".toml"),
    parts=_parts,
    derive=_derive,
    words={"objects": f"{_OBJECTS:,}"},
)
