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
ENTRIES = ("type_has_end", "gather_code")


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_point_survives_the_failure_of_each_request_for_memory(entry):
    command = [sys.executable, str(Path(__file__).parent), entry, "--kind", "memory", "--mode", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    points = int(done.stdout.splitlines()[-1].split()[0])
    assert points > 0


ONE_POINT = """
import json, runpy, sys
from pathlib import Path
folder, work, entry, n = sys.argv[1:]
sys.path.insert(0, folder)
import servers
programs = runpy.run_path(folder + "/__main__.py")["build"](Path(sys.executable))
line = servers.attempt(Path(sys.executable), programs, Path(work), entry, 0, int(n))
print(json.dumps(line))
"""


@pytest.mark.once
def test_a_gunicorn_that_may_not_adopt_its_workers_serves_without_a_refork(tmp_path):
    pytest.importorskip("gunicorn")
    words = (str(Path(__file__).parent), str(tmp_path), "gunicorn_refork", "1")
    line = json.loads(
        subprocess.check_output([sys.executable, "-c", ONE_POINT, *words], text=True, timeout=170)
    )
    assert (line.get("wrong"), line["raised"]) == (None, "")
    assert "no refork: the kernel does not make" in (tmp_path / "said").read_text()
