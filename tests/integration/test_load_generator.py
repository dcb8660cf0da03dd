"""Loads of a locustfile, by a Locust of the test's own that does what the file `way` says."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from pasture.errors import MissingExtra, UsageError
from pasture.trial.equipment import Equipment
from pasture.trial.load import read_result, sending
from pasture.trial.plan import TrialPlan
from pasture.trial.server import RunFiles

pytestmark = pytest.mark.once

TIMEOUT_S = 60
PLAN = TrialPlan(app="a:b", locustfile=Path("mine.py"))
EQUIPMENT = Equipment(locust=sys.executable)
LOCUST = """
import json, os, subprocess, sys, time
settings = json.load(open(os.environ["PASTURE_LOAD"]))
way = open("way").read()
print(way, *sys.argv[1:3], flush=True)
open("pid", "w").write(str(os.getpid()))
if way == "crash": os.abort()
if way == "hang": time.sleep(600)
if way == "leave":
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("pid", "w").write(str(left.pid))
found = {"requests": 1, "seconds": 1, "latencies_ms": [1], "paths": [], "answers": {}}
json.dump(found, open(settings["result_file"], "x"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, where the load's interpreter finds Locust first."""
    (tmp_path / "locust").mkdir()
    (tmp_path / "locust" / "__init__.py").touch()
    (tmp_path / "locust" / "__main__.py").write_text(LOCUST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCUST_HEADLESS", "0")
    return tmp_path


@pytest.fixture
def files(folder):
    (folder / "run").mkdir()
    return RunFiles(folder / "run", folder / "log")


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def load(files, way, equipment=EQUIPMENT):
    Path("way").write_text(way)
    return sending(PLAN, equipment, 7, 1, files)


def process_of_load():
    wait_until(lambda: Path("pid").exists() and Path("pid").read_text())
    return psutil.Process(int(Path("pid").read_text()))


def test_a_load_has_its_log_and_its_result(files):
    with load(files, "fine") as has_ended:
        wait_until(has_ended)
    assert read_result(PLAN, EQUIPMENT, files).figures.requests == 1
    assert files.log.read_text() == "fine --headless --only-summary\n"


def test_a_load_that_crashes_has_ended_and_has_no_result(files):
    with load(files, "crash") as has_ended:
        wait_until(has_ended)
    with pytest.raises(UsageError, match=r"mine\.py sent no request"):
        read_result(PLAN, EQUIPMENT, files)


def test_a_load_that_is_killed_has_ended(files):
    with load(files, "hang") as has_ended:
        process = process_of_load()
        assert not has_ended()
        process.kill()
        wait_until(has_ended)


@pytest.mark.parametrize("way", ["hang", "leave"])
def test_a_block_that_is_left_early_leaves_no_process_behind(files, way):
    with pytest.raises(KeyboardInterrupt), load(files, way):
        process = process_of_load()
        raise KeyboardInterrupt
    assert not process.is_running()


def test_an_interpreter_without_locust_is_named(files, folder):
    for file in (folder / "locust").iterdir():
        file.unlink()
    (folder / "locust").rmdir()
    bare = Equipment(locust=sys._base_executable)
    with load(files, "fine", bare) as has_ended:
        wait_until(has_ended)
    with pytest.raises(MissingExtra, match="has no Locust") as raised:
        read_result(PLAN, bare, files)
    assert "--load-python" in raised.value.hint
