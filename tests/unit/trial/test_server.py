"""How policy, warm-up and the user's settings reach the server; what the load is given."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pasture.errors import MissingExtra, UsageError
from pasture.warmup.requests import Request
from pasture.warmup.wsgi import build_environ
from pasture_tools.trial import load, run, server
from pasture_tools.trial.load import Progress
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.server import RunFiles

PLAN = TrialPlan(
    app="site:app",
    workers=3,
    env={"MODE": "live"},
    server_args=("--threads", "2"),
    headers=(("Cookie", "a=b"),),
)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path, tmp_path / "server.log")


def test_the_server_is_the_one_that_a_user_starts_by_hand(files: RunFiles) -> None:
    command = server.server_command(PLAN, "freeze", 8123, files)

    assert command[1:6] == ["-m", "pasture", "run", "--policy", "freeze"]
    assert command[6:] == [
        "gunicorn", "--workers", "3", "--bind", "127.0.0.1:8123", "--threads", "2",
        "--pid", str(files.directory / "pid"),
        "--control-socket", str(files.directory / "control"), "site:app",
    ]  # fmt: skip


def test_a_control_socket_is_the_runs_own_whatever_the_user_names(files: RunFiles) -> None:
    plan = TrialPlan(app="site:app", server_args=("--control-socket", "/run/production.ctl"))

    command = server.server_command(plan, "seal", 8123, files)

    last = len(command) - 1 - command[::-1].index("--control-socket")
    assert command[last + 1] == str(files.directory / "control")


def test_a_server_that_is_not_installed_is_one_sentence_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.require_server(PLAN)
    monkeypatch.setattr(server, "find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match="gunicorn is not installed in the appl") as raised:
        server.require_server(PLAN)

    assert "pip install 'gunicorn'" in raised.value.hint


def test_a_wait_says_how_long_it_has_lasted_and_how_the_log_ends() -> None:
    assert server._still_waiting(20.0, "one\ntwo \x1b[31m\n\n") == (
        "no answer after 20 s; its log ends with: two \\x1b[31m"
    )
    assert server._still_waiting(10.0, "") == "no answer after 10 s, and nothing in its log"


def test_the_environment_names_policy_and_files(files: RunFiles) -> None:
    environment = server.server_environment(PLAN, "freeze", files)

    assert environment["PASTURE_POLICY"] == "freeze"
    assert environment["PASTURE_WARM_FILE"] == str(files.warm)
    assert environment["MODE"] == "live"


def test_a_policy_of_the_surroundings_is_not_inherited(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASTURE_POLICY", "freeze")
    monkeypatch.setenv("PASTURE_SOMETHING", "else")

    environment = server.server_environment(PLAN, "stock", files)

    assert environment["PASTURE_POLICY"] == "stock"
    assert "PASTURE_SOMETHING" not in environment


def test_the_warm_up_is_written_as_lines(files: RunFiles) -> None:
    warm = (Request("GET", "/a"), Request("POST", "/b?c"))

    server.write_warm_up(files, replace(PLAN, warm=warm))

    assert files.warm.read_text() == "GET /a\nPOST /b?c\nCookie: a=b\n"


@pytest.mark.parametrize(
    ("text", "report"), [('{"objects": 3}', {"objects": 3}), ("[1]", None), ("{", None)]
)
def test_a_report_is_read_if_it_is_one(files: RunFiles, text: str, report: object) -> None:
    assert server.read_report(files) is None

    files.report.write_text(text)

    assert server.read_report(files) == report


def test_a_list_is_sent_with_all_headers_that_were_named(files: RunFiles) -> None:
    plan = replace(PLAN, headers=(("Cookie", "a=b"), ("Cookie", "c=d")), concurrency=9)

    settings = load._settings(plan, 7, 8123, files)

    assert (settings["requests"], settings["users"]) == (7, 9)
    assert settings["address"] == ["127.0.0.1", 8123]
    ((method, path, headers),) = settings["walk"]
    assert (method, path) == ("GET", "/")
    assert headers[-2:] == (("Cookie", "a=b"), ("Cookie", "c=d"))


@pytest.fixture
def load_files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path, tmp_path / "load.log")


def test_progress_distinguishes_not_started_from_nothing_done(load_files: RunFiles) -> None:
    assert load.read_progress(load_files) is None
    load_files.progress.write_text("")
    assert load.read_progress(load_files) == Progress(0, 0)
    load_files.progress.write_text("000000000042 000000000040")
    assert load.read_progress(load_files) == Progress(42, 40)


def test_a_result_is_read_with_its_answers(load_files: RunFiles) -> None:
    load_files.load_result.write_text(
        '{"requests": 3, "seconds": 0.5, "latencies_ms": [1.0, 3.0, 9.0], "paths": ["GET /"],'
        ' "answers": {"GET /": {"statuses": {"200": 1, "500": 1}, "bodies": {"aa": 2},'
        ' "error": null, "timeouts": 1, "skeletons": {"1 tag": 2}}}}'
    )

    result = load.read_result(load_files)

    assert (result.figures.requests_per_s, result.figures.failures) == (6.0, 2)
    assert result.answers["GET /"].statuses == {200: 1, 500: 1}


def test_a_load_that_never_began_says_why(load_files: RunFiles) -> None:
    load_files.log.write_text("Traceback (most recent call last):\nNameError: name 'x'\n")

    with pytest.raises(UsageError, match="NameError: name 'x'"):
        load.read_result(load_files)


def test_a_url_with_a_host_sends_it_along() -> None:
    request = Request("GET", "/a", "http", "shop.example")

    assert server.headers_of(request, PLAN)[-2:] == (("Cookie", "a=b"), ("Host", "shop.example"))
    assert server.headers_of(Request("GET", "/a"), PLAN)[-1] == ("Cookie", "a=b")


def test_load_and_warm_up_say_that_they_are_the_same_browser() -> None:
    request = Request("GET", "/")
    warmed = build_environ(request, PLAN.headers, "localhost")["HTTP_USER_AGENT"]
    assert dict(server.headers_of(request, PLAN))["User-Agent"] == warmed
    named = replace(PLAN, headers=(("user-agent", "mine"),))
    assert server.headers_of(request, named) == (("user-agent", "mine"),)


@pytest.mark.once
def test_what_the_tests_start_binds_no_control_socket_in_the_home_folder() -> None:
    config = pytest.importorskip("gunicorn.config")
    sockets = [s for s in config.KNOWN_SETTINGS if s.name == "control_socket"]

    assert sockets, "this gunicorn has one"
    assert Path(sockets[0].default).parent == Path(os.environ["XDG_RUNTIME_DIR"])
    assert not Path(sockets[0].default).is_relative_to(Path.home())


def test_the_warm_up_is_no_part_of_the_boot_that_is_reported() -> None:
    steps = [{"name": "warm-up", "seconds": 1.5}, {"name": "freeze", "seconds": 0.2}]

    assert run._warm_up_s({"steps": steps}) == 1.5
    assert run._warm_up_s(None) == run._warm_up_s({}) == 0.0
