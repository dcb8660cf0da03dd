"""Engines under `pasture run` are known by their own names, to `pgrep` and in usage texts."""

import sys
from pathlib import Path

import pytest
from running import completed, environment

pytestmark = pytest.mark.once

BIN = Path(sys.executable).parent


def usage(*command):
    done = completed([*command, "--help"], env=environment({"COLUMNS": "80"}))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["celery", "gunicorn", "uvicorn", "fastapi"])
def test_the_usage_text_is_that_of_the_engine_itself(name):
    if not (BIN / name).exists():
        pytest.skip(f"{name} is not installed")
    assert usage(sys.executable, "-m", "pasture", "run", name) == usage(str(BIN / name))


def test_a_server_and_its_workers_have_the_name_of_its_command(serve):
    server = serve()
    pids = [server.pid, *server.workers()]
    assert {Path(f"/proc/{pid}/comm").read_text() for pid in pids} == {"gunicorn\n"}
    assert server.stop() == 0
