"""The daemon that Spark starts, with a stand-in for PySpark: what it loads, says and seals.

The real one is tested on a cluster by `make test-engines`.
"""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from running import TIMEOUT_S

STAND_IN = """
import os, sys
def manager():
    os.write(1, (4711).to_bytes(4, "big"))
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            print("worker", sorted({"pyspark.worker", "table"} & set(sys.modules)), file=sys.stderr)
            os._exit(0)
        os.waitpid(pid, 0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").touch()
    (folder / "pyspark" / "daemon.py").write_text(STAND_IN)
    (folder / "pyspark" / "worker.py").write_text("print('loaded')")
    (folder / "table.py").write_text("import os; os.system('echo by a program'); T = {1: [2]}")
    (folder / "broken.py").write_text("print('x' * 200_000)\nraise RuntimeError('no such table')")
    (folder / "script.py").write_text("import sys; sys.exit('usage: script.py FILE')")
    return folder


def start(folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PASTURE_")}
    return subprocess.run(
        [sys.executable, "-m", "pasture.servers.pyspark", "pyspark.worker"],
        env={**clean, "PYTHONPATH": str(folder), **variables},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def good(folder):
    return start(folder, PASTURE_PRELOAD="table,broken,script")


def test_standard_output_has_the_port_alone_whatever_is_printed_before(good):
    assert good.stdout == struct.pack(">i", 4711)
    assert b"by a program" in good.stderr


def test_the_workers_find_their_module_and_what_is_named_imported(good):
    assert good.stderr.count(b"worker ['pyspark.worker', 'table']") == 2


def test_the_heap_is_sealed_once_and_the_log_says_so(good):
    assert good.returncode == 0, good.stderr[-2000:]
    assert good.stderr.count(b"pasture: policy seal on ") == 1


@pytest.mark.once
def test_a_module_that_cannot_be_imported_is_reported_and_the_daemon_goes_on(good):
    assert b"not preloaded: broken" in good.stderr
    assert b"no such table" in good.stderr
    assert b"not preloaded: script" in good.stderr


@pytest.mark.once
def test_more_output_than_a_pipe_holds_does_not_stop_the_start(folder):
    """Spark reads standard error once it has the port, and not before."""
    command = [sys.executable, "-m", "pasture.servers.pyspark"]
    env = {**os.environ, "PYTHONPATH": str(folder), "PASTURE_PRELOAD": "broken"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as daemon:
        signal.alarm(60)
        assert daemon.stdout.read(4) == struct.pack(">i", 4711)
        signal.alarm(0)
        daemon.communicate(timeout=TIMEOUT_S)


@pytest.mark.once
@pytest.mark.parametrize(
    ("variables", "code", "line"),
    [
        (
            {"PASTURE_STRICT": "1", "PASTURE_PRELOAD": "broken"},
            5,
            b"error: broken cannot be imported",
        ),
        ({"PASTURE_POLICY": "sael"}, 4, b"error: no policy is called 'sael'"),
    ],
)
def test_what_the_user_must_fix_ends_the_daemon_before_spark_has_a_port(
    folder, variables, code, line
):
    ended = start(folder, **variables)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert line in ended.stderr
    assert b"pasture/servers/pyspark" not in ended.stderr  # no traceback


@pytest.mark.once
def test_without_pyspark_the_error_says_where_its_name_belongs(tmp_path):
    ended = start(tmp_path)
    assert ended.returncode == 10
    assert b"spark.python.daemon.module" in ended.stderr
