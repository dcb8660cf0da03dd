"""Loads of a locustfile, by a Locust of the test's own that does what the file `way` says."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from pasture.errors import MissingExtra
from pasture.trial.equipment import Equipment
from pasture.trial.load import LoadGenerator, read_result
from pasture.trial.plan import TrialPlan
from pasture.trial.server import RunFiles

pytestmark = pytest.mark.once

TIMEOUT_S = 60
PLAN = TrialPlan(app="a:b", locustfile=Path("mine.py"))
LOCUST = """
import json, os, subprocess, sys, time
open("imported", "a").write("once ")
def main():
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
    sys.exit()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, where the load generator's interpreter finds Locust first."""
    (tmp_path / "locust").mkdir()
    (tmp_path / "locust" / "__init__.py").touch()
    (tmp_path / "locust" / "main.py").write_text(LOCUST)
    (tmp_path / "gevent.py").write_text("def reinit(): pass\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def generator(folder):
    with LoadGenerator(PLAN, Equipment(locust=sys.executable)) as generator:
        yield generator


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(generator, folder, name, way):
    """The block of a load that goes a way, and its files."""
    (folder / "way").write_text(way)
    (folder / name).mkdir()
    (folder / "pid").unlink(missing_ok=True)
    files = RunFiles(folder / name, folder / f"{name}.log")
    return generator.load(7, 1, files), files


def pid_of_load(folder):
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    return int((folder / "pid").read_text())


def test_locust_is_imported_once_for_loads_that_have_each_their_log_and_result(generator, folder):
    for name in ("first", "second\nline", "third"):
        load, files = start(generator, folder, name, f"of {name}")
        with load as has_ended:
            wait_until(has_ended)
        assert read_result(PLAN, Equipment(locust="x"), files).figures.requests == 1
        assert files.log.read_text() == f"of {name} --headless --only-summary\n"
    assert (folder / "imported").read_text() == "once "


def test_a_load_that_crashes_has_no_result_and_the_next_has_one(generator, folder):
    for name, way in (("first", "crash"), ("second", "fine")):
        load, files = start(generator, folder, name, way)
        with load as has_ended:
            wait_until(has_ended)
        assert files.load_result.exists() is (way == "fine")
    assert (folder / "imported").read_text() == "once "


@pytest.mark.parametrize("killed", ["the load's", "the one that forks it"])
def test_a_load_whose_process_is_killed_has_ended_and_the_next_is_sent(generator, folder, killed):
    load, files = start(generator, folder, "first", "hang")
    with load as has_ended:
        process = psutil.Process(pid_of_load(folder))
        assert not has_ended()
        (process if killed == "the load's" else process.parent()).kill()
        wait_until(has_ended)
    wait_until(lambda: not process.is_running())
    load, files = start(generator, folder, "second", "fine")
    with load as has_ended:
        wait_until(has_ended)
    assert files.load_result.exists()


def test_a_block_that_is_left_early_leaves_no_load_behind(generator, folder):
    load, files = start(generator, folder, "first", "hang")
    with pytest.raises(KeyboardInterrupt), load:
        process = psutil.Process(pid_of_load(folder))
        raise KeyboardInterrupt
    assert not process.is_running()
    # Before Locust is there: the order must not be carried out later.
    load, files = start(generator, folder, "second", "hang")
    with load:
        pass
    (folder / "way").write_text("another")
    load, files = start(generator, folder, "third", "fine")
    with load as has_ended:
        wait_until(has_ended)
    assert not (folder / "second" / "result.json").exists() and files.load_result.exists()


def test_what_a_load_leaves_running_ends_with_it(generator, folder):
    load, _ = start(generator, folder, "first", "leave")
    with load as has_ended:
        wait_until(has_ended)
        left = psutil.Process(pid_of_load(folder))
    assert not left.is_running()


def test_an_interpreter_without_locust_is_named(generator, folder):
    (folder / "locust" / "main.py").write_text("raise ModuleNotFoundError(name='locust')")
    load, files = start(generator, folder, "first", "fine")
    with load as has_ended:
        wait_until(has_ended)
    with pytest.raises(MissingExtra, match="has no Locust"):
        read_result(PLAN, Equipment(locust="x"), files)


def test_a_signal_to_the_load_alone_is_its_own(generator, folder):
    load, files = start(generator, folder, "first", "hang")
    with load as has_ended:
        os.killpg(pid_of_load(folder), signal.SIGTERM)  # a session of its own
        wait_until(has_ended)
        assert files.load_ended.exists()  # the one that forks is there and says so
