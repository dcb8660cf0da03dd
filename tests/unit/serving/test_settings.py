"""How a policy and a warm-up get into a server process."""

from __future__ import annotations

import dataclasses
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import pasture_auto
from pasture.errors import UnknownPolicy, UsageError
from pasture.sealing import policy
from pasture.serving import settings
from pasture.serving.setting import OFF, ON
from pasture.serving.settings import SETTINGS, ServerSettings, read_environment, to_environment
from pasture.warmup import guard
from pasture.warmup.requests import Request, Requests


def asked(settings: ServerSettings) -> Requests:
    assert settings.warm_up is not None
    return settings.warm_up


def test_rows_have_the_defaults_of_the_rooms_that_they_do_not_import() -> None:
    assert (settings.DEFAULT_POLICY, settings.POLICIES) == (
        policy.DEFAULT_POLICY,
        tuple(policy.POLICIES),
    )
    assert settings.TOTAL_S == guard.TOTAL_S


def test_without_variables_the_arguments_count_and_then_the_defaults() -> None:
    assert read_environment({}).policy.name == "seal"
    settings = read_environment({}, policy="freeze", warm=["/a"])
    assert settings.policy.name == "freeze"
    assert asked(settings).requests == (Request("GET", "/a"),)
    assert settings.report_file is None


def test_variables_win() -> None:
    environ = {"PASTURE_POLICY": "stock", "PASTURE_WARM": "/b\nCookie: x=1"}
    settings = read_environment(environ, policy="freeze", warm=["/a"])
    assert settings.policy.name == "stock"
    assert asked(settings).requests == (Request("GET", "/b"),)
    assert asked(settings).headers == (("Cookie", "x=1"),)


def test_files_add_to_the_requests(tmp_path: Path) -> None:
    (tmp_path / "warm").write_text("/b\nCookie: x=1\n")
    environ = {
        "PASTURE_WARM": "/a",
        "PASTURE_WARM_FILE": str(tmp_path / "warm"),
        "PASTURE_REPORT_FILE": str(tmp_path / "report"),
    }
    settings = read_environment(environ)
    assert [request.path for request in asked(settings).requests] == ["/a", "/b"]
    assert asked(settings).headers == (("Cookie", "x=1"),)
    assert settings.report_file == tmp_path / "report"


def test_mistakes_in_variables_are_mistakes_of_the_user() -> None:
    with pytest.raises(UnknownPolicy):
        read_environment({"PASTURE_POLICY": "seel"})
    with pytest.raises(UsageError):
        read_environment({"PASTURE_WARM_FILE": "/does/not/exist"})


def test_options_survive_the_way_through_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("warm").write_text("/c\n")
    lines = ["/a", "POST /b", "Cookie: x=1"]
    environ = to_environment(policy="freeze", warm=tuple(lines), warm_file=Path("warm"))
    monkeypatch.chdir("/")
    settings = read_environment(environ)
    assert settings.policy.name == "freeze"
    assert [str(request) for request in asked(settings).requests] == [
        "GET /a",
        "POST /b",
        "GET /c",
    ]
    assert asked(settings).headers == (("Cookie", "x=1"),)


def test_options_that_were_not_given_leave_no_variable() -> None:
    assert to_environment(policy=None, warm=(), warm_file=None) == {}


def test_who_starts_an_application_is_each_or_once() -> None:
    assert read_environment({}).lifespan == "each"
    assert read_environment({"PASTURE_LIFESPAN": "once"}).lifespan == "once"
    with pytest.raises(UsageError, match="PASTURE_LIFESPAN"):
        read_environment({"PASTURE_LIFESPAN": "twice"})


def test_modules_to_preload_are_names_with_commas_between_them() -> None:
    environ = {"PASTURE_PRELOAD": "my_tasks, my_models.tables,"}
    assert read_environment(environ).preload == ("my_tasks", "my_models.tables")
    assert read_environment({}, preload="tasks").preload == ("tasks",)
    assert to_environment(preload="a,b") == {"PASTURE_PRELOAD": "a,b"}


@pytest.mark.parametrize(
    "environ",
    [
        {"PASTURE_PRELOAD": "tasks.py -x"},
        {"PASTURE_PRELOAD": "a..b"},
        {"PASTURE_STRICT": "ja"},
        {"PASTURE_PROBE": "maybe"},
    ],
)
def test_what_names_no_module_and_is_no_choice_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        read_environment(environ)


@pytest.mark.parametrize(
    ("raw", "choice"),
    [("", "on"), ("on", "on"), ("1", "on"), ("off", "off"), ("false", "off"), ("end", "end")],
)
def test_a_probe_is_the_default_and_can_be_left_out_or_end_the_server(
    raw: str, choice: str
) -> None:
    settings = read_environment({"PASTURE_PROBE": raw, "PASTURE_WARM": "/"})
    assert (settings.probe, settings.probes) == (choice, choice != "off")
    assert read_environment(to_environment(probe=choice)).probe == choice


def test_without_requests_of_the_user_there_is_no_probe() -> None:
    assert not read_environment({}).probes
    assert not read_environment({"PASTURE_POLICY": "stock", "PASTURE_WARM": "/"}).probes


def test_a_choice_about_the_probe_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError):
        read_environment({"PASTURE_PROBE": "maybe"})


SWITCHES = [row.variable for row in SETTINGS.values() if row.takes is bool]


@pytest.mark.parametrize("variable", SWITCHES)
def test_all_switches_are_written_in_the_same_words(variable: str) -> None:
    name = next(field.name for field in dataclasses.fields(ServerSettings)
                if field.metadata["row"].variable == variable)  # fmt: skip
    for words, is_on in ((ON, True), (OFF, False)):
        for word in words:
            for written in (word, word.upper(), f" {word.capitalize()} "):
                assert getattr(read_environment({variable: written}), name) is is_on, written
    for wrong in ("2", "maybe", "truth", "none"):
        with pytest.raises(UsageError, match=variable):
            read_environment({variable: wrong})


def test_the_start_file_that_is_read_before_pasture_is_there_has_the_same_words() -> None:
    assert pasture_auto.ON == ON
    assert pasture_auto.OFF == ("", *OFF)


@pytest.mark.parametrize("given", [True, False, 1, 0, "yes", "no"])
def test_switches_that_are_arguments_are_read_alike(given: object) -> None:
    assert read_environment({}, strict=given).strict is (given in (True, "yes"))


def test_what_was_learned_asks_for_no_request_and_no_refork(tmp_path: Path) -> None:
    path = tmp_path / "site.auto"
    path.write_text("# pasture auto 1\nrequest GET /page\nok module json\n")
    settings = read_environment({"PASTURE_AUTO": str(path)})
    assert settings.auto == path
    assert not settings.warm_up and settings.refork is None


# --- What follows from a row ---


BEFORE = "    strict: bool = setting("
ROW = """\
    grass_s: float = setting(
        "PASTURE_GRASS",
        "--grass",
        metavar="SECONDS",
        help="How long grass grows.",
        takes=float,
        default=2.0,
        parse=parse_seconds,
    )
"""
PROGRAM = """
import importlib.util, os, sys
name = "pasture.serving.settings"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = settings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(settings)
from pasture_tools.cli import main
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
    environ = {"PASTURE_PROBE": "0"} | to_environment(probe="on")
    assert read_environment(environ).probe == "on"


def test_requests_of_the_variables_take_the_place_of_all_that_a_configuration_lists(
    tmp_path: Path,
) -> None:
    (tmp_path / "warm").write_text("/file\n")
    environ = {"PASTURE_WARM_FILE": str(tmp_path / "warm")}
    found = asked(read_environment(environ, warm=["/given"])).requests
    assert [request.path for request in found] == ["/file"]
