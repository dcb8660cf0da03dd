"""`pasture doctor` on real servers, and each check on evidence made up for it."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from pasture.doctor.checks import CHECKS, Evidence, diagnose
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


def obstacles(evidence):
    return {finding.check for finding in diagnose(evidence) if finding.is_obstacle}


def test_nothing_stands_in_the_way_of_a_healthy_server():
    assert obstacles(HEALTHY) == set()
    assert len(diagnose(HEALTHY)) == len(CHECKS)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"master": SMALL, "workers": (ALONE,)}, "preload"),
        ({"threads": ("python", "ticker")}, "threads"),
        ({"gc_callers": ("msgpack (fallback.py:7)",)}, "gc-enable"),
        ({"huge_pages": "[always] madvise never"}, "huge-pages"),
        ({"files": ("/usr/bin/python3.14", "/usr/lib/libjemalloc.so.2")}, "allocator"),
        ({"environ": {"PYTHONMALLOC": "malloc"}}, "allocator"),
        ({"files": ("/usr/bin/python3.11",)}, "interpreter"),
        ({"files": ("/usr/bin/python3.14t",)}, "interpreter"),
    ],
)
def test_each_obstacle_is_found_with_its_cost_and_a_remedy(change, check):
    evidence = replace(HEALTHY, **change)
    assert obstacles(evidence) == {check}
    [finding] = [f for f in diagnose(evidence) if f.is_obstacle]
    assert finding.cost and finding.mend
    assert diagnose(evidence)[0] is not None and diagnose(evidence)[0].is_obstacle


def test_huge_pages_off_and_absent_are_in_order():
    for state in ("always madvise [never]", ""):
        assert obstacles(replace(HEALTHY, huge_pages=state)) == set()


def doctor(*arguments, cwd=None, env=None):
    command = [sys.executable, "-m", "pasture", "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=env)


def test_a_sealed_server_shares_its_memory_and_runs_no_threads(serve, tmp_path):
    server = serve(workers=2)
    done = doctor(server.process.pid, "--json", tmp_path / "found.json")
    document = json.loads((tmp_path / "found.json").read_text())
    by_check = {finding["check"]: finding["is_obstacle"] for finding in document["findings"]}
    assert by_check["preload"] is False
    assert document["master"] == server.process.pid
    assert done.returncode == (15 if any(by_check.values()) else 0), done.stdout


def test_a_thread_of_the_master_is_named(serve):
    server = serve(workers=1, env={"HERD_THREAD": "1"})
    done = doctor(server.process.pid)
    assert done.returncode == 15
    assert "threads: the master runs" in done.stdout


def test_a_command_is_run_and_who_turns_the_collector_on_is_named(tmp_path):
    (tmp_path / "library.py").write_text("import gc\ndef load():\n    gc.enable()\n")
    program = "import library, os, time\nlibrary.load()\nif os.fork():\n    os.wait()\n"
    (tmp_path / "server.py").write_text(program + "else:\n    time.sleep(30)\n")
    done = doctor("--", sys.executable, "server.py", cwd=tmp_path)
    assert done.returncode == 15, done.stdout + done.stderr
    assert f"library ({tmp_path}/library.py:3) called gc.enable()" in done.stdout


def test_a_command_that_forks_nothing_is_an_error_with_a_hint(tmp_path):
    done = doctor("--", sys.executable, "-c", "print('no server')")
    assert done.returncode == 11
    assert "ended with status 0 before it forked a worker" in done.stderr
