"""What other programs print, read back."""

import subprocess
import sys
from pathlib import Path

import pytest

from pasture.errors import NotMeasurable, ServerFailed
from pasture_lab.engine import requirements
from pasture_lab.engine.experiment import Bench
from pasture_lab.experiments.cache import read_cachegrind, read_counts
from pasture_lab.experiments.code_refcount import immortal_codes
from pasture_lab.experiments.faults import group_of, is_named, perf_stacks
from pasture_lab.processes.httperf import answered

HTTPERF = """\
httperf --hog --client=0/1 --server=127.0.0.1 --port=8000 --uri=/ --send-buffer=4096
Maximum connect burst length: 1

Total: connections 50 requests 50 replies 48 test-duration 1.037 s

Connection rate: 48.2 conn/s (20.7 ms/conn, <=1 concurrent connections)
Reply status: 1xx=0 2xx=47 3xx=0 4xx=0 5xx=1

Errors: total 2 client-timo 2 socket-timo 0 connrefused 0 connreset 0
"""

PERF = """\
 3624 page-faults:
\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])

 3624 page-faults:
\t          146c2c _PyObject_GC_New
\t          b63c60 [unknown]

 3622 page-faults:
\tffffffff81000130 entry
\t          14b28e visit_decref
\t          218dc0 gc_collect_main
"""


def test_httperf_counts_answers_with_2xx_alone() -> None:
    assert answered(HTTPERF) == 47


def test_httperf_without_a_report_is_an_error_that_shows_what_it_said() -> None:
    with pytest.raises(ServerFailed) as caught:
        answered("httperf: connect: no route to host")
    assert "no route to host" in caught.value.hint


def test_stacks_of_perf_leave_out_the_kernel_and_the_head_of_each() -> None:
    assert list(perf_stacks(PERF)) == [
        ("_PyObject_GC_New", "[unknown]"),
        ("visit_decref", "gc_collect_main"),
    ]


@pytest.mark.parametrize(
    ("stack", "group"),
    [
        (("visit_decref", "gc_collect_main"), "collector"),
        (("memcpy", "gc_collect_main.cold"), "collector"),
        (("_PyObject_GC_New", "main"), "_PyObject_GC_New"),
        (("_native.cpython-314-x86_64-linux-gnu.so+0x10",), "pasture, out of line"),
    ],
)
def test_a_fault_is_the_collectors_if_it_is_on_the_stack(
    stack: tuple[str, ...], group: str
) -> None:
    assert group_of(stack) == group


@pytest.mark.parametrize(
    ("function", "named"),
    [("list_append", True), ("python3.14+0x14701d", False), ("?", False), ("[unknown]", False)],
)
def test_a_place_in_a_file_is_no_name(function: str, named: bool) -> None:
    assert is_named(function) is named


def test_counters_that_are_not_supported_are_left_out() -> None:
    text = "<not supported>;;cycles;0;100.00;;\n1234;;cache-misses:u;1000;100.00;;\n"
    assert read_counts(text) == {"cache-misses": 1234.0}


def test_data_misses_of_cachegrind_are_reads_and_writes() -> None:
    text = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nsummary: 9 1 1 100 20 3 50 10 4\n"
    assert read_cachegrind(text) == (150, 7)


def test_cachegrind_without_a_cache_is_not_measurable() -> None:
    with pytest.raises(NotMeasurable):
        read_cachegrind("events: Ir\nsummary: 9\n")


@pytest.mark.parametrize("said", ["", "immortal code objects: 0\n"])
def test_a_site_whose_code_is_not_immortal_is_no_comparison(tmp_path: Path, said: str) -> None:
    bench = Bench(tmp_path, tmp_path / "log", {}, lambda done: None, lambda seconds: None)
    bench.log("server").write_text(f"*** starting uWSGI ***\n{said}")
    with pytest.raises(ServerFailed, match="no code object became immortal"):
        immortal_codes(bench)
    bench.log("server").write_text("immortal code objects: 13814\nspawned\n")
    assert immortal_codes(bench) == 13814


def test_a_program_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotMeasurable) as caught:
        requirements.find("httperf")
    assert str(caught.value) == "httperf is not installed"
    assert caught.value.hint == "apt install httperf"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "name experiments, or say --all"),
        (["run", "micro", "--all"], "name experiments, or say --all"),
        (["run", "macro"], "no experiment is called 'macro'"),
        (["run", "micro", "--site", "/nowhere"], "holds no manage.py"),
        (["run", "micro", "--python", "/nowhere/pypy"], "cannot run /nowhere/pypy"),
        (["run", "micro", "--python", "a b=/bin/sh"], "cannot name an interpreter"),
        (["run", "micro", "--python", "a=/bin/sh", "--python", "a=/bin/sh"], "are called a"),
    ],
)
def test_a_mistake_on_the_command_line_is_said(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pasture", "lab", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert said in done.stderr


def test_the_list_names_every_experiment() -> None:
    from pasture_lab.experiments import EXPERIMENTS

    done = subprocess.run(
        [sys.executable, "-m", "pasture", "lab", "list"], capture_output=True, text=True
    )
    assert done.returncode == 0
    for name in EXPERIMENTS:
        assert name in done.stdout
