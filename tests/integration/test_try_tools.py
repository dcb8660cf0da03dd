"""Environments of pasture's own: made once, whole or not at all, whatever happens meanwhile.

An installer of the test stands in for uv: it makes a real environment, and puts one module in.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

from pasture.display.progress import Finished, Started
from pasture.errors import MissingExtra, UsageError
from pasture.trial import equipment, tools
from pasture.trial.plan import TrialPlan
from pasture.trial.tools import PAGE, SERVERS, Tools, find_or_make

pytestmark = [pytest.mark.integration, pytest.mark.once, pytest.mark.timeout(120)]

GRASS = Tools("grass", "grass", ("grass>=1",), ("grass",), instead=", or bring your own")
OTHER_USER = 65534
UV = """#!/bin/sh
echo "$1 $PWD" >>"$UV_CALLS"
if [ "$1" = venv ]; then exec "$4" -I -m venv --without-pip "$5"; fi
[ -z "$UV_SLOW" ] || sleep "$UV_SLOW"
[ -z "$UV_FAILS" ] || { echo "no route to the index" >&2; exit 2; }
folder=$(dirname "$(dirname "$5")")
echo "height = 7" >"$(echo "$folder"/lib/python3.*/site-packages)/grass.py"
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of environments; uv is the program above."""
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(UV)
    program.chmod(0o755)
    for name, value in {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "UV_CALLS": str(tmp_path / "calls"),
        "UV_SLOW": "",
        "UV_FAILS": "",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "cache" / "pasture" / "trial"


def make(tools=GRASS, pause=time.sleep, emit=lambda event: None):
    return find_or_make(tools, emit, pause)


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


def height(made):
    said = subprocess.run(
        [made.python, "-c", "import grass; print(grass.height)"], capture_output=True, text=True
    )
    return said.stdout.strip()


def test_an_environment_is_made_once_and_outside_of_any_project(cache, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    events = []

    made = make(emit=events.append)
    again = make(emit=events.append)

    assert made == again and height(made) == "7"
    assert [line.split()[0] for line in calls(tmp_path)] == ["venv", "pip"]
    assert not any("project" in line for line in calls(tmp_path))
    (said,) = [event for event in events if isinstance(event, Started)]
    assert said.text == f"installing grass with uv, once, into {made.folder}"
    assert [path.name for path in cache.iterdir()] == [made.folder.name]
    assert (made.packages / "grass.py").is_file()


def test_one_that_is_broken_is_made_anew(cache):
    made = make()
    (made.packages / "grass.py").unlink()

    assert height(make()) == "7"

    (made.folder / "bin" / "python").unlink()
    assert height(make()) == "7"
    assert len(list(cache.iterdir())) == 1


def test_what_a_killed_trial_left_is_removed_and_nothing_else(cache):
    half = cache / ".grass-1.2-3.making" / "lib"
    half.mkdir(parents=True)
    (cache / "load-1").mkdir()

    make()

    assert not half.parent.exists()
    assert (cache / "load-1").exists()


def test_a_trial_that_is_killed_leaves_no_folder_of_an_installation(cache, tmp_path):
    program = f"""
import os, time
from pathlib import Path
from pasture.trial import tools
def pause(seconds):
    if any(Path({str(tmp_path)!r}).glob("pasture-tools-*")):
        print("there", flush=True)
        time.sleep(600)
tools._install([["sleep", "600"]], pause)
"""
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert running.stdout.readline() == b"there\n"
    running.kill()
    running.communicate()
    while any(tmp_path.glob("pasture-tools-*")):  # the test's limit of time ends this
        time.sleep(0.02)


def test_two_at_once_make_one(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_SLOW", "1")
    found, events = [], []
    threads = [
        threading.Thread(target=lambda: found.append(make(emit=events.append))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found[0] == found[1] and height(found[0]) == "7"
    assert Finished("grass", "waiting for another trial, which is installing") in events
    assert [line.split()[0] for line in calls(tmp_path)] == ["venv", "pip"]


def test_where_there_are_no_locks_the_later_of_two_does_no_harm(cache, monkeypatch):
    def refuse(number, operation):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("pasture.trust.locks.fcntl.flock", refuse)
    monkeypatch.setenv("UV_SLOW", "1")
    other = threading.Thread(target=make)
    other.start()
    made = make()
    other.join()

    assert height(made) == "7"
    assert [path.name for path in cache.iterdir()] == [made.folder.name]


def test_an_interrupt_leaves_nothing_half_made_and_no_installer(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_SLOW", "977")

    def pause(seconds):
        time.sleep(seconds)
        if (tmp_path / "calls").exists() and len(calls(tmp_path)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(pause=pause)

    assert list(cache.iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "sleep 977" not in running


def test_without_a_network_the_error_says_what_to_do(cache, monkeypatch):
    monkeypatch.setenv("UV_FAILS", "1")

    with pytest.raises(MissingExtra) as raised:
        make()

    assert raised.value.message == "grass could not be installed"
    for words in ("pip install 'pasture[trial]'", "bring your own", "no route to the index"):
        assert words in raised.value.hint
    assert list(cache.iterdir()) == []


def test_pip_installs_where_there_is_no_uv(cache, tmp_path, monkeypatch):
    (tmp_path / "bin" / "uv").unlink()
    pip = tmp_path / "bin" / "pip"
    pip.write_text(UV.replace("$5", "$2"))  # pip --python PYTHON install ...
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pip.parent}:/usr/bin:/bin")
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    events = []

    assert height(make(emit=events.append)) == "7"

    assert "installing grass with pip, once" in events[0].text
    assert [line.split()[0] for line in calls(tmp_path)] == ["--python"]


def test_without_an_installer_the_error_says_what_to_do(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(tools, "find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match="neither uv nor pip") as raised:
        make()

    assert "put uv on the PATH" in raised.value.hint and "bring your own" in raised.value.hint
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_broken_one_that_cannot_be_made_anew_stays(cache, monkeypatch):
    made = make()
    (made.packages / "grass.py").unlink()
    monkeypatch.setenv("UV_FAILS", "1")

    with pytest.raises(MissingExtra):
        make()

    assert made.folder.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_an_environment_of_another_user_is_not_run(cache):
    made = make()
    os.chown(made.folder, OTHER_USER, OTHER_USER)

    with pytest.raises(UsageError, match=f"belongs to user {OTHER_USER}"):
        make()


def test_the_extra_names_the_same_packages():
    mine = {words for one in (PAGE, *SERVERS.values()) for words in one.requirements}
    lines = [line.partition(";") for line in requires("pasture")]
    extra = {words.strip() for words, _, marker in lines if "trial" in marker}

    assert mine == extra


def test_a_locustfile_needs_a_locust_that_is_new_enough_and_none_is_installed(monkeypatch):
    plan = TrialPlan(app="json:app", locustfile=Path(__file__))
    monkeypatch.setattr(equipment.tools, "find_or_make", fail)

    monkeypatch.setattr(equipment, "version", lambda name: "2.32.1")
    assert equipment.find_equipment(plan, ignore, ignore).locust == sys.executable
    assert equipment.find_equipment(TrialPlan(app="json:app"), ignore, ignore).locust is None

    for old in ("1.9", None):
        monkeypatch.setattr(equipment, "version", lambda name, old=old: old or missing(name))
        with pytest.raises(MissingExtra, match=r"needs Locust 2\.32 or newer") as raised:
            equipment.find_equipment(plan, ignore, ignore)
        assert "--load-python" in raised.value.hint and "pip install" in raised.value.hint
        named = replace(plan, load_python="/mine/python")
        assert equipment.find_equipment(named, ignore, ignore).locust == "/mine/python"


def test_a_gunicorn_that_the_application_lacks_is_found_apart(monkeypatch):
    monkeypatch.setattr(equipment.tools, "find_or_make", lambda tools, *_: Made(tools.name))
    monkeypatch.setattr(equipment, "find_spec", lambda name: None)
    monkeypatch.setattr(equipment, "features_of", lambda plan, server: frozenset({str(server)}))

    found = equipment.find_equipment(TrialPlan(app="json:app"), ignore, ignore)

    assert found.server == Path("/made/server/packages")
    assert found.features == {"/made/server/packages"}


def ignore(*_):
    return None


def fail(*_):
    raise AssertionError("something is installed")


def missing(name):
    raise PackageNotFoundError(name)


class Made:
    """In place of an environment."""

    def __init__(self, name):
        self.python = f"/made/{name}/python"
        self.packages = Path(f"/made/{name}/packages")
