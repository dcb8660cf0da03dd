"""Each check of `pasture doctor` on evidence made up for it."""

from dataclasses import replace
from typing import Any

import pytest

from pasture.doctor.checks import CHECKS, diagnose
from pasture.doctor.evidence import Evidence
from pasture.doctor.modules import Module, Wheel
from pasture.doctor.table import as_document, verdict
from pasture.proc.smaps import Memory

MB = 1_000_000
SHARED = Memory(100 * MB, 40 * MB, 0, 10 * MB, 90 * MB)
ALONE = Memory(100 * MB, 95 * MB, 0, 90 * MB, 10 * MB)
SMALL = Memory(20 * MB, 10 * MB, 0, 5 * MB, 15 * MB)
HEALTHY = Evidence(
    master_pid=1,
    command=("python", "gunicorn"),
    environ={},
    master=SHARED,
    workers=(SHARED, SHARED),
    threads=("python",),
    files=("/usr/bin/python3.14",),
    huge_pages="always [madvise] never",
    ksm="0",
    gc_callers=(),
)


def obstacles(evidence: Evidence) -> set[str]:
    return {finding.check for finding in diagnose(evidence) if finding.is_obstacle}


def test_nothing_stands_in_the_way_of_a_healthy_server() -> None:
    assert obstacles(HEALTHY) == set()
    assert len(diagnose(HEALTHY)) == len(CHECKS)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"master": SMALL, "workers": (ALONE,)}, "preload"),
        ({"threads": ("python", "ticker")}, "threads"),
        ({"gc_callers": ("msgpack (fallback.py:7)",)}, "gc-enable"),
        ({"huge_pages": "[always] madvise never"}, "huge-pages"),
        ({"environ": {"PYTHONMALLOC": "malloc"}}, "allocator"),
        ({"files": ("/usr/bin/python3.11",)}, "interpreter"),
        ({"files": ("/usr/bin/python3.14t",)}, "interpreter"),
        ({"modules": (Module("/a.abi3.so", Wheel("a 1", "cp38-abi3")),)}, "abi3"),
    ],
)
def test_each_obstacle_is_found_with_its_cost_and_a_remedy(
    change: dict[str, Any], check: str
) -> None:
    evidence = replace(HEALTHY, **change)
    assert obstacles(evidence) == {check}
    [finding] = [f for f in diagnose(evidence) if f.is_obstacle]
    assert finding.cost and finding.mend
    assert diagnose(evidence)[0] is not None and diagnose(evidence)[0].is_obstacle


def test_huge_pages_off_and_absent_are_in_order() -> None:
    for state in ("always madvise [never]", ""):
        assert obstacles(replace(HEALTHY, huge_pages=state)) == set()


def test_another_allocator_is_named_and_stands_in_nobodys_way() -> None:
    evidence = replace(HEALTHY, files=("/usr/bin/python3.14", "/usr/lib/libjemalloc.so.2"))
    assert obstacles(evidence) == set()
    assert "libjemalloc.so.2 is loaded" in told(evidence, "allocator")


def told(evidence: Evidence, check: str) -> str:
    [finding] = [found for found in diagnose(evidence) if found.check == check]
    return finding.what


def test_a_server_without_workers_is_told_to_have_forked_nothing() -> None:
    assert told(replace(HEALTHY, workers=()), "preload") == "no workers: nothing was forked yet"


def test_small_workers_are_no_sign_of_a_missing_preload() -> None:
    tiny = Memory(9 * MB, 8 * MB, 0, 7 * MB, 1 * MB)
    evidence = replace(HEALTHY, master=Memory(6 * MB, 5 * MB, 0, 5 * MB, 1 * MB), workers=(tiny,))
    assert obstacles(evidence) == set()


def test_threads_are_named_once_each_and_not_without_end() -> None:
    names = ("python", "pool", "pool", *(f"t{number:02}" for number in range(20)))
    what = told(replace(HEALTHY, threads=names), "threads")
    assert what.startswith("the master runs 22 more threads: pool, t00,")
    assert what.endswith("t10 and 9 more")


def test_the_control_thread_of_gunicorn_is_told_by_what_it_is() -> None:
    evidence = replace(HEALTHY, threads=("python", "gunicorn-ctl"))
    assert "gunicorn's control server" in told(evidence, "threads")
    other = replace(evidence, command=("python", "own_server"))
    assert "gunicorn's control server" not in told(other, "threads")


def test_callers_of_pasture_itself_are_no_library_that_turns_the_collector_on() -> None:
    callers = ("pasture.gc (gc.py:1)", "__main__ (run.py:2)")
    assert obstacles(replace(HEALTHY, gc_callers=callers)) == set()


def test_an_old_stable_abi_is_no_obstacle_to_an_interpreter_without_immortal_objects() -> None:
    old = Module("/a.abi3.so", Wheel("a 1", "cp38-abi3"))
    evidence = replace(HEALTHY, modules=(old,), files=("/usr/bin/python3.11",))
    assert obstacles(evidence) == {"interpreter"}


def test_a_module_that_does_not_count_or_knows_immortality_is_no_obstacle() -> None:
    modules = (Module("/a.abi3.so", None), Module("/b.abi3.so", Wheel("b 1", "cp312-abi3")))
    evidence = replace(HEALTHY, modules=modules)
    assert obstacles(evidence) == set()
    assert told(evidence, "abi3") == "2 abi3 modules, none counts inline"


def test_an_interpreter_that_no_file_names_is_no_obstacle() -> None:
    evidence = replace(HEALTHY, files=("/usr/bin/server",))
    assert obstacles(evidence) == set()
    assert told(evidence, "interpreter") == "which Python this is could not be told"


@pytest.mark.parametrize(
    ("content", "state"),
    [("0\n", "off"), ("1\n", "on"), ("2\n", "off, and unmerged"), ("", "absent")],
)
def test_merging_of_equal_pages_is_told(content: str, state: str) -> None:
    assert told(replace(HEALTHY, ksm=content), "ksm") == f"kernel same-page merging: {state}"


def test_the_document_has_every_finding_and_the_verdict_counts_the_obstacles() -> None:
    findings = diagnose(replace(HEALTHY, huge_pages="[always]"))
    document = as_document(7, findings)
    assert (document["schema"], document["master"]) == (1, 7)
    assert len(document["findings"]) == len(CHECKS)
    assert document["findings"][0]["check"] == "huge-pages"
    assert verdict(1) == "1 obstacle found" and verdict(0) == "nothing stands in the way"


def test_an_interpreter_that_the_extension_does_not_fit_comes_with_what_to_do() -> None:
    refusal = "this wheel was built for a debug build: `pip install pasture` builds it here"
    [finding] = [
        f for f in diagnose(replace(HEALTHY, refusals=(refusal,))) if f.check == "interpreter"
    ]
    assert finding.is_obstacle and "debug build" in finding.what
    assert finding.mend == "`pip install pasture` builds it here"
