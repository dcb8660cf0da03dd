"""Everything about a setting follows from its row."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.serving import settings
from pasture.serving.settings import SETTINGS, ServerSettings, read_environment, to_environment

pytestmark = pytest.mark.once

BEFORE = "    strict: bool = setting("
ROW = """\
    grass_s: float = setting(
        "PASTURE_GRASS",
        "--grass",
        metavar="SECONDS",
        help="How long grass grows.",
        takes=float,
        default=2,
        parse=parse_seconds,
    )
"""
PROGRAM = """
import importlib.util, os, sys
name = "pasture.serving.settings"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = settings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(settings)
from pasture.cli import main
os.execve = lambda program, words, environ: (
    print(environ["PASTURE_GRASS"], settings.read_environment(environ).grass_s)
)
main.run(["run", "--help"])
main.run(["run", "--grass", "7", "python", "app.py"])
main.run(["run", "--grass", "-7", "python", "app.py"])
from pasture.servers import gunicorn
gunicorn.configure(grass=3)
print(settings.read_environment({}, **gunicorn.engine.configured).grass_s)
print(settings.read_environment({}).grass_s)
"""


def test_a_new_setting_is_a_row_in_one_file(tmp_path: Path) -> None:
    source = Path(settings.__file__).read_text()
    assert source.count(BEFORE) == 1
    changed = tmp_path / "settings.py"
    changed.write_text(source.replace(BEFORE, ROW + BEFORE))
    command = [sys.executable, "-c", PROGRAM, str(changed)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ})
    assert "--grass SECONDS" in done.stdout and "How long grass grows." in done.stdout, done.stderr
    assert done.stdout.splitlines()[-3:] == ["7.0 7.0", "3.0", "2.0"]
    assert "-7.0 is no time limit" in done.stderr


def test_the_page_of_settings_is_what_the_rows_say() -> None:
    root = Path(__file__).parents[3]
    page = runpy.run_path(str(root / "tools/pages/settings.py"))["page"]()
    assert (root / "docs/settings.md").read_text() == page, "run `make pages`"


def test_the_variable_of_each_setting_is_named_as_its_option_and_its_argument_are() -> None:
    for name, row in SETTINGS.items():
        assert row.variable in ("", f"PASTURE_{name.upper()}")
        assert row.option.partition("/")[0] in ("", f"--{name.replace('_', '-')}")
        assert row.help


def test_what_is_said_without_any_setting_is_the_default_of_each() -> None:
    found = read_environment({})
    assert isinstance(found, ServerSettings)
    assert to_environment() == {}
    assert read_environment(dict.fromkeys((row.variable for row in SETTINGS.values()), "")) == found


def test_an_option_that_says_the_default_wins_over_a_variable() -> None:
    environ = {"PASTURE_PROBE": "0"} | to_environment(probe=True)
    assert read_environment(environ).probe


def test_requests_of_the_variables_take_the_place_of_all_that_a_configuration_lists(
    tmp_path: Path,
) -> None:
    (tmp_path / "warm").write_text("/file\n")
    environ = {"PASTURE_WARM_FILE": str(tmp_path / "warm")}
    found = read_environment(environ, warm=["/given"]).warm_up.requests
    assert [request.path for request in found] == ["/file"]


def test_headers_of_a_variables_file_are_those_of_requests_that_a_configuration_lists(
    tmp_path: Path,
) -> None:
    (tmp_path / "headers").write_text("Cookie: secret=1\n")
    environ = {"PASTURE_WARM_HEADERS_FILE": str(tmp_path / "headers")}
    found = read_environment(environ, warm=["/given", "X-Of: it"]).warm_up
    assert [request.path for request in found.requests] == ["/given"]
    assert dict(found.headers) == {"Cookie": "secret=1", "X-Of": "it"}


@pytest.mark.parametrize("name", ["refork_least_saving", "max_uss_jitter"])
def test_a_part_of_a_setting_that_is_not_given_is_not_read(name: str) -> None:
    assert read_environment({}, **{name: "nonsense"}) == read_environment({})
    with pytest.raises(UsageError):
        read_environment({}, max_uss="200M", refork="7", **{name: "nonsense"})
