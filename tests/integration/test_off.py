"""`PASTURE=off`: each entry is plain Python, says so once, and finds no mistake in any setting.

Red where an entry reads its settings, or seals, before it has asked `pasture.off`.
"""

import signal
import sys
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import pytest
from running import PASTURE_RUN, completed, environment

from pasture import _native
from pasture.scoreboard.reader import read_scoreboard
from pasture.sealing.seen import read_seal
from pasture.servers.engines import ENGINES

PROGRAMS = Path(__file__).parent.parent / "programs"
NONSENSE = {"PASTURE_STRICT": "perhaps", "PASTURE_WARM": "no request", "PASTURE_REFORK": "x"}
SAID = "pasture: no seal: PASTURE=off is set"
IMPORTED = [
    row
    for row in ENGINES.values()
    if not row.module.startswith("pasture.servers.one_process")
    if row.name not in ("python", "pyspark", "dask", "uwsgi")  # imports that switch nothing
]
IS_SEALED = """
import sys
sealer = sys.modules.get("pasture.serving.sealer")
print(sealer is not None and sealer._latest is not None)
"""


def run(*words, **variables):
    return completed(
        [sys.executable, *words], env=environment({**NONSENSE, **variables}), cwd=PROGRAMS
    )


@pytest.mark.parametrize(
    ("row", "variable"),
    [*zip(IMPORTED, cycle(("PASTURE", "PASTURE_POLICY")))],
    ids=lambda one: getattr(one, "name", one),
)
def test_the_import_line_of_an_engine_is_off(row, variable):
    if row.package and find_spec(row.package) is None:
        pytest.skip(f"{row.package} is not installed")
    done = run("-c", f"import {row.module}\n{IS_SEALED}", **{variable: "OFF"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"
    assert done.stderr.count("no seal") == (row.name != "gunicorn")  # which has a log once it runs


@pytest.mark.parametrize(
    ("word", "start"),
    [("off", "run"), ("0", "configure"), ("No", "configure"), ("false", "run")],
)
def test_a_server_is_as_without_pasture(serve, word, start):
    conf = "from pasture.servers.gunicorn import configure\nconfigure(policy='none', shape=1)"
    server = serve(
        env={"PASTURE": word, **NONSENSE},
        conf=conf if start == "configure" else "",
        plain=start == "configure",
    )
    server.send_signal(signal.SIGHUP)
    server.wait_for(lambda: "Hang up" in server.log, "a new configuration")
    assert server.get("/who")
    assert server.log.count(f"pasture: no seal: PASTURE={word} is set") == 1
    assert server.log.count("pasture:") == 1
    assert read_seal(server.pid, None) is read_scoreboard(server.pid) is None


def test_the_start_file_of_the_environment_is_silent():
    done = run("working_parent.py", "pool", PASTURE="off")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_policy_that_is_off_is_no_mistake_of_the_environment():
    done = run("working_parent.py", "pool", PASTURE="seal", PASTURE_POLICY="off")
    assert done.returncode == 0
    assert done.stderr == "pasture: no seal: PASTURE_POLICY=off is set; use PASTURE=off\n"


def test_a_program_with_pools_is_off():
    command = [*PASTURE_RUN[1:], "--image", "auto", "--", "python", "working_parent.py", "pool"]
    done = run(*command, PASTURE="off")
    assert (done.returncode, done.stderr) == (0, f"{SAID}\n")


def test_the_library_is_off():
    done = run(
        "-c",
        "import pasture\n"
        "report = pasture.seal('no policy', strict=True)\n"
        "print(report.sealed, report.why, report.steps)\n"
        "print(pasture.warm_up(print, ['no request']).refused)\n"
        "with pasture.sealed('spawn') as found: print(found.report.sealed)\n"
        "print(pasture.sealed_forkserver('json').get_start_method())",
        PASTURE="off",
    )
    assert done.returncode == 0, done.stderr
    said = ["False off ()", "PASTURE=off is set", "False", "forkserver"]
    assert done.stdout.splitlines() == said


@pytest.mark.skipif(not _native.HAS_IMMORTALITY, reason="pytest-pasture needs CPython 3.12")
def test_a_run_of_tests_is_off(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    options = ["-m", "pytest", "-p", "no:cacheprovider", "--pasture", "--keep", "-n", "1"]
    done = run(*options, str(tmp_path), PASTURE="off", PYTEST_XDIST_WORKER="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "pasture: plain pytest-xdist: PASTURE=off is set\n"
