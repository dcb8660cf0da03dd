"""Each check of `pasture doctor` on evidence made up for it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pasture.interpreter import BUILD_HERE
from pasture.proc.cgroup import Usage
from pasture.proc.smaps import InMemory, Memory
from pasture.proc.stacks import owner_of
from pasture.reasons import Hazard, Reason
from pasture.scoreboard.figures import Counts
from pasture.scoreboard.layout import Entry
from pasture.sealing.seen import LeftOut, SealSeen
from pasture_tools.doctor.checks import diagnose
from pasture_tools.doctor.evidence import Evidence, Worker
from pasture_tools.doctor.findings import as_document, verdict
from pasture_tools.doctor.modules import Module, Wheel
from pasture_tools.doctor.notes import Notes
from pasture_tools.doctor.server import State
from pasture_tools.doctor.threads import Thread

MB = 1_000_000
SHARED = Memory(100 * MB, 40 * MB, 0, 10 * MB, 90 * MB)
ALONE = Memory(100 * MB, 95 * MB, 0, 90 * MB, 10 * MB)
SMALL = Memory(20 * MB, 10 * MB, 0, 5 * MB, 15 * MB)
SEALED = SealSeen(True, "seal", 1_234_567, has_report=True)
RUNS = "1 other Python thread(s) running: ticker (app.py:3 in tick)"
NOT_SEALED = replace(
    SEALED,
    sealed=False,
    reason=RUNS,
    why=Reason.THREAD_RUNS,
    beside=frozenset({"ticker", "a name of more than 15"}),
    left_out=(LeftOut("immortalize", "in other words", Reason.THREAD_RUNS),),
)
PLAIN = replace(
    SEALED, sealed=False, reason="the probe failed: GET /: hung", why=Reason.PLAIN, objects=0
)
LEAKS = Entry(1, counts=Counts(requests=256), says_requests=True, marks=(10 * MB, 12 * MB, 16 * MB))
HEALTHY = Evidence(
    master_pid=1,
    command=("python", "gunicorn"),
    environ={},
    master=SHARED,
    workers=(Worker(SHARED), Worker(SHARED)),
    threads=(),
    files=("/usr/bin/python3.14",),
    huge_pages="always [madvise] never",
    notes=Notes(),
    preloads=True,
)


def obstacles(evidence: Evidence) -> set[str]:
    return {finding.check for finding in diagnose(evidence) if finding.is_obstacle}


def test_nothing_stands_in_the_way_of_a_healthy_server() -> None:
    assert obstacles(HEALTHY) == set()
    checks = [finding.check for finding in diagnose(HEALTHY)]
    assert checks == [
        *("preload", "late-imports", "threads", "gc-enable", "abi3", "huge-pages"),
        *("allocator", "interpreter"),
    ]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"master": SMALL, "workers": (Worker(ALONE),)}, "preload"),
        ({"spawned": 2, "workers": (), "is_asgi": True}, "preload"),
        ({"threads": (Thread("ticker", waits=False),)}, "threads"),
        ({"notes": Notes(gc_callers=("msgpack (fallback.py:7)",))}, "gc-enable"),
        ({"seal": replace(SEALED, sealed=False, reason="immortalize failed")}, "seal"),
        ({"seal": replace(SEALED, left_out=(LeftOut("plug-malloc", "no memory"),))}, "seal"),
        ({"seal": replace(SEALED, dead="9 of 10 MB are not used any more: restart")}, "seal"),
        ({"seal": NOT_SEALED}, "threads"),
        ({"seal": replace(SEALED, pending_imports=3)}, "lazy-imports"),
        ({"seal": replace(SEALED, unnamed=2)}, "hazards"),
        (
            {"workers": (Worker(SHARED), Worker(replace(SHARED, anonymous_bytes=9), entry=LEAKS))},
            "leak",
        ),
        ({"usage": Usage(512 * MB, 500 * MB, 0, 0, Path("/"))}, "limit"),
        ({"usage": Usage(900 * MB, 500 * MB, 0, 0, Path("/"), oom_kills=1)}, "killed"),
        ({"state": State("without effect", "X")}, "effect"),
        ({"seal": SEALED, "workers": (Worker(replace(SHARED, shared_bytes=40 * MB)),)}, "sharing"),
        ({"notes": Notes(lazy=("json",))}, "lazy-imports"),
        ({"huge_pages": "[always] madvise never"}, "huge-pages"),
        ({"environ": {"PYTHONMALLOC": "malloc"}}, "allocator"),
        ({"files": ("/usr/bin/python3.11",)}, "interpreter"),
        ({"files": ("/usr/bin/python3.14t",)}, "interpreter"),
    ],
)
def test_each_obstacle_is_found_with_its_cost_and_a_remedy(
    change: dict[str, Any], check: str
) -> None:
    evidence = replace(HEALTHY, **change)
    assert obstacles(evidence) == {check}
    [finding] = [f for f in diagnose(evidence) if f.is_obstacle]
    assert finding.cost and finding.fix
    assert "private as a whole" not in finding.cost  # tests/integration/test_huge_pages.py
    assert diagnose(evidence)[0] is not None and diagnose(evidence)[0].is_obstacle


def test_huge_pages_off_and_absent_are_in_order() -> None:
    for state in ("always madvise [never]", ""):
        assert obstacles(replace(HEALTHY, huge_pages=state)) == set()


def test_another_allocator_is_named_and_is_no_obstacle() -> None:
    evidence = replace(HEALTHY, files=("/usr/bin/python3.14", "/usr/lib/libjemalloc.so.2"))
    assert obstacles(evidence) == set()
    assert "libjemalloc.so.2 is loaded" in what_of(evidence, "allocator")


def what_of(evidence: Evidence, check: str) -> str:
    [finding] = [found for found in diagnose(evidence) if found.check == check]
    return finding.what


def test_a_server_without_workers_is_reported_to_have_forked_nothing() -> None:
    assert what_of(replace(HEALTHY, workers=()), "preload") == "no workers: nothing was forked yet"


def test_a_sealed_master_of_a_program_may_have_loaded_nothing() -> None:
    grown = replace(Worker(ALONE), at_start_bytes=1 * MB, requests=None)
    seen = replace(HEALTHY, master=SMALL, workers=(grown,), seal=SEALED, notes=None, preloads=False)
    found = {finding.check: finding for finding in diagnose(seen)}
    assert found["preload"].is_obstacle and "--preload" in found["preload"].fix
    assert "own-data" not in found and "late-imports" not in found
    known = {finding.check: finding for finding in diagnose(replace(seen, preloads=True))}
    assert not known["preload"].is_obstacle and "own-data" in known


def test_a_plain_server_gets_no_advice_to_load_the_application_before() -> None:
    seen = replace(HEALTHY, master=SMALL, workers=(Worker(ALONE),))
    after = replace(seen, seal=PLAIN)
    assert obstacles(after) == {"seal"}
    [alone] = [finding for finding in diagnose(seen) if finding.is_obstacle]
    assert "--preload" in alone.fix


def test_small_workers_are_no_sign_of_a_missing_preload() -> None:
    tiny = Worker(Memory(9 * MB, 8 * MB, 0, 7 * MB, 1 * MB))
    evidence = replace(HEALTHY, master=Memory(6 * MB, 5 * MB, 0, 5 * MB, 1 * MB), workers=(tiny,))
    assert obstacles(evidence) == set()


def built(private_mb: int, requests: int | None, at_start_mb: int = 2) -> Worker:
    memory = Memory(330 * MB, 300 * MB, 0, private_mb * MB, 50 * MB)
    return Worker(memory, requests, at_start_mb * MB)


def test_data_of_a_lifespan_is_named_and_not_taken_for_a_missing_preload() -> None:
    evidence = replace(
        HEALTHY,
        is_asgi=True,
        master=Memory(52 * MB, 30 * MB, 0, 20 * MB, 32 * MB),
        workers=(built(279, 0), built(279, 0)),
        seal=SEALED,
    )
    assert obstacles(evidence) == {"own-data"}
    what = what_of(evidence, "own-data")
    assert "built 277 MB for itself before its first request, in its lifespan" in what
    reforking = replace(evidence, environ={"PASTURE_REFORK": "50,500"})
    [advice, another] = [
        next(finding.fix for finding in diagnose(seen) if finding.check == "own-data")
        for seen in (evidence, reforking)
    ]
    assert advice.startswith("`--lifespan once` of `pasture run`; or load it while modules")
    assert another.endswith("(no `--lifespan once` of `pasture run` where workers refork)")


def test_what_workers_that_have_served_hold_is_not_said_to_come_from_their_start() -> None:
    evidence = replace(HEALTHY, workers=(built(279, 500),), seal=SEALED)
    assert obstacles(evidence) == set()
    what = what_of(evidence, "own-data")
    assert what.startswith("each worker has built 277 MB since it was forked, for requests, or")
    asgi = replace(evidence, is_asgi=True)
    what = what_of(asgi, "own-data")
    assert "in its lifespan or for requests: `pasture explain` says what" in what
    little = replace(HEALTHY, workers=(built(6, 500),), seal=SEALED)
    assert "own-data" not in {finding.check for finding in diagnose(little)}


def test_under_another_server_data_of_each_worker_is_looked_for_in_its_hooks() -> None:
    evidence = replace(HEALTHY, workers=(built(20, None),), seal=SEALED)
    assert "a hook like post_fork" in what_of(evidence, "own-data")


def test_a_worker_that_built_little_is_no_obstacle() -> None:
    evidence = replace(HEALTHY, workers=(built(5, 0),), seal=SEALED)
    assert obstacles(evidence) == set()


def test_packages_that_every_worker_imports_are_named_with_what_they_take() -> None:
    numpy = {"numpy 2.5.5": InMemory(20 * MB, 6 * MB)}
    evidence = replace(
        HEALTHY,
        packages=frozenset(("lxml 6.0",)),
        workers=(
            Worker(SHARED, packages={**numpy, "lxml 6.0": InMemory(4 * MB, MB)}),
            Worker(SHARED, packages={**numpy, "msgpack 1.1": InMemory(MB, MB)}),
        ),
        imported=("numpy", "numpy.linalg", "decimal"),
    )
    assert obstacles(evidence) == {"late-imports"}
    what = what_of(evidence, "late-imports")
    assert what == (
        "every worker imports for itself: numpy 2.5.5 (6.0 MB), the standard library (1 module)"
    )


def test_libraries_of_nothing_are_no_obstacle() -> None:
    tiny = {"markupsafe 3.0": InMemory(20_000, 8_000)}
    evidence = replace(HEALTHY, workers=(Worker(SHARED, packages=tiny),) * 2)
    assert obstacles(evidence) == set()
    assert "markupsafe 3.0 (0.0 MB)" in what_of(evidence, "late-imports")


def test_libraries_of_some_workers_are_named_with_how_many_have_them() -> None:
    tiny, large = InMemory(20_000, 8_000), InMemory(20 * MB, 11 * MB)
    some = Worker(SHARED, packages={"matplotlib 3.10": large, "pillow 11": tiny, "lxml 6": large})
    both = Worker(SHARED, packages={"pillow 11": tiny, "lxml 6": large})
    evidence = replace(
        HEALTHY, packages=frozenset(("lxml 6",)), workers=(some, both, Worker(SHARED)), notes=None
    )
    assert obstacles(evidence) == set()
    assert what_of(evidence, "late-imports") == (
        "no library is in all workers but not in the master; in some of 3: "
        "matplotlib 3.10 (11.0 MB) in 1, pillow 11 (0.0 MB) in 2"
    )
    none = replace(evidence, workers=(Worker(SHARED),))
    assert what_of(none, "late-imports").startswith("no worker has mapped a library")


def test_a_few_small_modules_that_workers_import_are_no_obstacle() -> None:
    assert obstacles(replace(HEALTHY, imported=("decimal", "gunicorn.workers.sync"))) == set()


def test_a_thread_that_began_after_the_fork_is_no_obstacle() -> None:
    late = Thread("gunicorn-ctl", after_fork=True, waits=False)
    evidence = replace(HEALTHY, threads=(late,))
    assert obstacles(evidence) == set()
    assert "ran a single thread when it forked; later began gunicorn-ctl" in what_of(
        evidence, "threads"
    )


def test_threads_that_wait_are_no_obstacle_and_are_named_with_their_packages() -> None:
    waits = Thread("exporter", package="opentelemetry")
    evidence = replace(HEALTHY, threads=(waits,))
    assert obstacles(evidence) == set()
    assert "a thread of the master waits: exporter of opentelemetry" in what_of(evidence, "threads")


def test_threads_that_their_libraries_start_again_in_workers_are_said_to_be() -> None:
    exporter = Thread("OtelBatchSpanRecordProcessor", package="opentelemetry-sdk 1.45.2")
    transport = Thread("worker", package="sentry-sdk 2.4")
    both = what_of(replace(HEALTHY, threads=(exporter, transport)), "threads")
    assert "workers do not have" not in both
    assert "the libraries of OtelBatchSpanRecordProcessor" in both and "start their own" in both
    other = what_of(replace(HEALTHY, threads=(exporter, Thread("poller"))), "threads")
    assert "workers do not have poller" in other


@pytest.mark.parametrize("proved", ["", "passed"])
def test_a_thread_that_workers_lack_is_said_to_be_unproved_where_there_was_no_probe(
    proved: str,
) -> None:
    seal = replace(SEALED, probe=proved)
    what = what_of(replace(HEALTHY, seal=seal, threads=(Thread("poller"),)), "threads")
    assert ("no probe has shown that they can do without" in what) == (not proved)


def test_names_of_threads_that_the_kernel_has_cut_or_never_had_are_shown_as_such() -> None:
    assert str(Thread("gunicorn-contro", is_cut=True)) == "gunicorn-contro..."
    assert str(Thread("", package="polars 1.0")) == "an unnamed one of polars 1.0"


def test_threads_of_native_code_do_not_keep_a_seal_from_its_steps() -> None:
    native = Thread("worker", waits=False, package="polars 1.0", is_python=False)
    assert obstacles(replace(HEALTHY, threads=(native,))) == set()


def test_a_generator_that_all_workers_share_is_named_and_no_obstacle() -> None:
    hazard = Hazard("numpy's generator", "seed it", Reason.GENERATOR, fate="is the same in all")
    seal = replace(SEALED, hazards=(hazard,))
    assert obstacles(replace(HEALTHY, seal=seal)) == set()
    said = [one.what for one in diagnose(replace(HEALTHY, seal=seal)) if one.check == "hazards"]
    assert said == ["numpy's generator is the same in all: seed it"]


def test_hazards_that_the_seal_has_found_come_first() -> None:
    seen = replace(SEALED, hazards=(Hazard("the task refresh()", "start it in each worker"),))
    first = diagnose(replace(HEALTHY, seal=seen, huge_pages="[always] madvise never"))[0]
    assert (first.check, first.what) == (
        "hazards",
        "the task refresh() does not survive a fork",
    )
    assert first.fix == "start it in each worker"


def test_a_thread_of_python_code_is_of_no_library_that_belongs_to_no_package() -> None:
    inside = ["/lib/libc.so.6", "/usr/bin/python3.14", "/usr/lib/libsqlite3.so.0"]
    assert owner_of(inside) == ("", True)
    assert owner_of(["/lib/libc.so.6", "/usr/lib/libgomp.so.1"]) == ("libgomp.so.1", False)


def test_threads_of_native_code_that_no_worker_has_are_an_obstacle() -> None:
    native = Thread("tokio-rt", package="chromadb 1.5", is_python=False, copes=False)
    [finding] = [f for f in diagnose(replace(HEALTHY, threads=(native,))) if f.is_obstacle]
    assert finding.check == "native-threads"
    hazard = Hazard("tokio-rt of chromadb 1.5", "not in workers", Reason.NATIVE_THREAD)
    seal = replace(SEALED, hazards=(hazard,))
    assert obstacles(replace(HEALTHY, threads=(native,), seal=seal)) == {"hazards"}
    assert finding.what.endswith("runs in the master alone: tokio-rt of chromadb 1.5")
    late = replace(native, after_fork=True)
    assert obstacles(replace(HEALTHY, threads=(late,))) == set()


def test_the_thread_that_kept_steps_from_being_taken_is_named_with_package_and_remedy() -> None:
    ticker = Thread("ticker", waits=False, package="apscheduler")
    evidence = replace(HEALTHY, threads=(ticker,), seal=NOT_SEALED)
    [finding] = [f for f in diagnose(evidence) if f.is_obstacle]
    assert finding.what == f"{RUNS}; ticker of apscheduler"
    assert finding.cost == "the seal left out immortalize"
    assert finding.fix == "apscheduler: run it in a process of its own"


def test_a_thread_whose_name_the_kernel_has_cut_is_the_one_that_the_seal_names() -> None:
    cut = Thread("a name of more ", package="apscheduler", waits=False, is_cut=True)
    other = Thread("another name wi", package="celery", waits=False, is_cut=True)
    evidence = replace(HEALTHY, threads=(cut, other), seal=NOT_SEALED)
    [finding] = [f for f in diagnose(evidence) if f.is_obstacle]
    assert finding.what == f"{RUNS}; {cut}"


def test_threads_are_named_once_each_and_not_without_end() -> None:
    names = ("pool", "pool", *(f"t{number:02}" for number in range(20)))
    threads = tuple(Thread(name, waits=False) for name in names)
    what = what_of(replace(HEALTHY, threads=threads), "threads")
    assert what.startswith("22 threads of the master run: pool, t00,")
    assert what.endswith("t10 and 9 more")


def test_a_collector_that_is_turned_on_finds_nothing_to_write_to_where_the_heap_is_frozen() -> None:
    notes = Notes(gc_callers=("msgpack (fallback.py:7)",))
    assert obstacles(replace(HEALTHY, notes=notes, seal=SEALED)) == set()


def test_a_module_and_what_is_wanted_of_it_are_one_lazy_import() -> None:
    evidence = replace(HEALTHY, notes=Notes(lazy=("copy", "copy.copy", "xml.dom")))
    assert what_of(evidence, "lazy-imports") == (
        "2 lazy imports were pending at the fork: copy, xml.dom"
    )


def test_an_interpreter_that_lacks_a_step_is_reported_with_the_first_that_has_it() -> None:
    [finding] = [
        f
        for f in diagnose(replace(HEALTHY, files=("/usr/bin/python3.11",)))
        if f.check == "interpreter"
    ]
    assert finding.what == "Python 3.11 has no immortal objects"
    assert finding.fix == "Python 3.12 or newer"
    later = replace(HEALTHY, files=("/usr/bin/python3.12",))
    assert "interpreter" not in obstacles(later)


def test_a_step_that_the_interpreter_lacks_is_said_once_and_as_the_interpreters() -> None:
    seal = replace(SEALED, objects=0, left_out=(LeftOut("immortalize", "x", Reason.VERSION),))
    old = replace(HEALTHY, files=("/usr/bin/python3.11",), seal=seal)
    assert obstacles(old) == {"interpreter"}
    other = replace(seal, left_out=(LeftOut("immortalize", "x", Reason.UNAVAILABLE),))
    assert obstacles(replace(old, seal=other)) == {"interpreter", "seal"}


def test_callers_of_pasture_itself_are_no_library_that_turns_the_collector_on() -> None:
    callers = ("pasture.gc (gc.py:1)", "__main__ (run.py:2)")
    assert obstacles(replace(HEALTHY, notes=Notes(gc_callers=callers))) == set()


def test_an_old_stable_abi_is_no_obstacle_to_an_interpreter_without_immortal_objects() -> None:
    old = Module("/a.abi3.so", Wheel("a 1", "cp38-abi3"))
    evidence = replace(HEALTHY, modules=(old,), files=("/usr/bin/python3.11",))
    assert obstacles(evidence) == {"interpreter"}


def test_a_module_that_does_not_count_or_knows_immortality_is_no_obstacle() -> None:
    modules = (Module("/a.abi3.so", None), Module("/b.abi3.so", Wheel("b 1", "cp312-abi3")))
    evidence = replace(HEALTHY, modules=modules)
    assert obstacles(evidence) == set()
    for seen in (evidence, HEALTHY):
        assert what_of(seen, "abi3") == "no extension for the stable ABI counts references inline"


def test_what_each_worker_holds_is_reported_beside_what_they_share() -> None:
    what = "workers share 90 % of their memory, and hold 10.0 MB each for themselves"
    assert what_of(HEALTHY, "preload") == what


def test_an_interpreter_that_no_file_names_is_no_obstacle() -> None:
    evidence = replace(HEALTHY, files=("/usr/bin/server",))
    assert obstacles(evidence) == set()
    assert what_of(evidence, "interpreter") == "the version of Python is unknown"


def test_the_document_has_every_finding_and_the_verdict_counts_the_obstacles() -> None:
    findings = diagnose(replace(HEALTHY, huge_pages="[always]"))
    document = as_document(7, findings)
    assert (document["schema"], document["master"]) == (1, 7)
    assert len(document["findings"]) == len(findings)
    assert document["findings"][0]["check"] == "huge-pages"
    assert verdict(1) == "1 obstacle found" and verdict(0) == "nothing stands in the way"


def test_an_interpreter_that_the_extension_does_not_fit_comes_with_what_to_do() -> None:
    refusal = f"this wheel was built for a debug build: {BUILD_HERE}"
    [finding] = [
        f for f in diagnose(replace(HEALTHY, refusals=(refusal,))) if f.check == "interpreter"
    ]
    assert finding.is_obstacle and "debug build" in finding.what
    assert finding.fix == BUILD_HERE
    assert finding.what.endswith("for a debug build")


def test_a_probe_that_passed_is_no_obstacle() -> None:
    seen = replace(HEALTHY, seal=replace(SEALED, probe="passed"))
    (found,) = (finding for finding in diagnose(seen) if finding.check == "probe")
    assert not found.is_obstacle and found.what.startswith("its probe passed: no 5xx")


def test_requests_of_the_warm_up_that_failed_are_an_obstacle() -> None:
    for failed, words in ((0, "3 requests before the fork"), (2, "2 of 3 requests of the warm-up")):
        seen = replace(HEALTHY, seal=replace(SEALED, warm_up=(3, failed, "GET /a: 500")))
        (found,) = (finding for finding in diagnose(seen) if finding.check == "warm-up")
        assert found.what.startswith(words) and found.is_obstacle == bool(failed)
    assert not [f for f in diagnose(replace(HEALTHY, seal=SEALED)) if f.check == "warm-up"]


def test_a_probe_that_failed_is_an_obstacle() -> None:
    assert "probe" in obstacles(replace(HEALTHY, seal=replace(SEALED, probe="failed")))


def test_why_a_server_is_plain_is_an_obstacle() -> None:
    (found,) = (one for one in diagnose(replace(HEALTHY, seal=PLAIN)) if one.check == "seal")
    assert found.is_obstacle and found.what.endswith("because the probe failed: GET /: hung")


def test_a_size_that_fits_is_named_after_a_kill() -> None:
    worker = Worker(Memory(200 * MB, 150 * MB, 0, 100 * MB, 100 * MB))
    usage = Usage(500 * MB, 450 * MB, 0, 0, Path("/"), oom_kills=3)
    found = diagnose(replace(HEALTHY, workers=(worker,) * 4, usage=usage))
    [killed] = [one for one in found if one.check == "killed"]
    assert killed.what.endswith("killed for memory: 3")
    assert killed.fix.startswith("fewer workers")
    tight = usage._replace(used_bytes=490 * MB)
    [killed] = [
        one
        for one in diagnose(replace(HEALTHY, workers=(worker,) * 4, usage=tight))
        if one.check == "killed"
    ]
    assert killed.fix.startswith("3 workers of this size fit")
