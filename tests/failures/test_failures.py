"""Some entry points with few requests; `make test-failures` runs all."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the tracer is for x86-64"),
    pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.11 has no immortal objects"),
]


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("type_has_end", "memory"),
        ("gather_code", "places"),
        pytest.param("freeze", "places", marks=pytest.mark.once),
    ],
)
def test_an_entry_point_survives_the_failure_of_each_request_for_memory(entry, kind):
    words = [entry, "--kind", kind, "--mode", "0"]
    command = [sys.executable, str(Path(__file__).parent), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    points = int(done.stdout.splitlines()[-1].split()[0])
    assert points > 0


ONE_POINT = """
import json, queue, runpy, sys
from pathlib import Path
folder, entry, mode, call, where = sys.argv[1:]
sys.path.insert(0, folder)
import placed
main = runpy.run_path(folder + "/__main__.py")
main["SLOTS"].put(0)
python = Path(sys.executable)
attempts = placed.Attempts(python, main["build"](python), entry, int(mode), main["SLOTS"])
found = [point for point in attempts.points()
         if point.place & placed.ANY_CALL == int(call) and where in point.where]
print(json.dumps(attempts.attempt(found[0])))
"""
WRITE, MMAP, PWRITE64, SENDMSG, CLONE, PRCTL, GETDENTS64 = 1, 9, 18, 46, 56, 157, 217


@pytest.mark.once
@pytest.mark.parametrize(
    ("entry", "mode", "call", "where", "status"),
    [
        pytest.param("gunicorn_refork", 0, PRCTL, "ReforkingArbiter", 0, id="no adoption"),
        pytest.param("doctor_hung", 0, GETDENTS64, "waits.py:_numbers", 1, id="no thread"),
        pytest.param("image_build", 2, PWRITE64, "Copy._regions", 0, id="half of a copy"),
        pytest.param("image_build", 1, SENDMSG, "order.py:send", 17, id="no reader"),
        pytest.param("image_build", 0, MMAP, "VariablesRead.__enter__", 17, id="no memory"),
        pytest.param("image_build", 0, WRITE, "environment.py:write", 17, id="no room"),
        pytest.param("image_build", 0, PRCTL, "Apart.__init__", 0, id="no other load"),
        pytest.param("image_build", 0, CLONE, " loading.py:main", 17, id="no copied process"),
        pytest.param("image_build", 0, PRCTL, "_freeze", 17, id="nothing can be frozen"),
    ],
)
def test_where_a_call_fails_a_program_works_on_or_ends_in_words(entry, mode, call, where, status):
    pytest.importorskip("gunicorn")
    words = (str(Path(__file__).parent), entry, str(mode), str(call), where)
    done = subprocess.run(
        [sys.executable, "-c", ONE_POINT, *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["failed"] == call
    assert (line.get("wrong"), line["raised"]) == (None, f"status {status}" if status else "")
