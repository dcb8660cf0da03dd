"""Runs that are kept come back as they were, for the same options and no others."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pasture.errors import UsageError
from pasture.trial.cache import RunKeeper, cache_folder
from pasture.trial.measurement import Run
from pasture.trial.plan import TrialPlan
from pasture.trial.responses import UrlAnswers
from pasture.warmup.requests import Request

pytestmark = pytest.mark.once

MakeRun = Callable[..., Run]
PLAN = TrialPlan(
    app="site:app",
    policies=("stock", "seal"),
    headers=(("Cookie", "session=s3cret"), ("Cookie", "b=c")),
    env={"PASSWORD": "hunter2"},
    warm=(Request("GET", "/"),),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_runs_come_back_as_they_were(make_run: MakeRun) -> None:
    answers = {"GET /": UrlAnswers({200: 5, 0: 1}, {"aa": 5}, error="reset", timeouts=2)}
    report = {"objects": 3, "steps": [{"name": "warm-up", "seconds": 1.5}]}
    runs = (
        make_run("stock", answers=answers),
        make_run("seal", round=1, report=report, shortfalls=("did not seal: threads",)),
    )

    RunKeeper(PLAN).save(runs)

    assert RunKeeper(PLAN).load().runs == runs


def test_what_may_be_secret_is_not_in_the_file(make_run: MakeRun) -> None:
    keeper = RunKeeper(PLAN)

    keeper.save([make_run()])

    text = keeper.path.read_text()
    assert "s3cret" not in text and "hunter2" not in text
    assert keeper.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"requests": 7}, "--requests was 2000 and is 7"),
        ({"server": "uvicorn"}, '--server was "gunicorn" and is "uvicorn"'),
        ({"policies": ("stock",)}, "--policy was"),
        ({"urls": (Request("GET", "/other"),)}, "--url was"),
        ({"headers": (("Cookie", "another"),)}, "--header has changed"),
        ({"env": {"PASSWORD": "other"}}, "--env has changed"),
        ({"server_args": ("--threads", "2")}, "the arguments after -- was"),
    ],
)
def test_another_option_is_named(make_run: MakeRun, change: dict[str, Any], words: str) -> None:
    RunKeeper(PLAN).save([make_run()])

    with pytest.raises(UsageError) as raised:
        RunKeeper(replace(PLAN, **change)).load()

    assert words in raised.value.message
    assert "s3cret" not in raised.value.message


def test_a_locustfile_that_was_edited_is_named(make_run: MakeRun, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("a = 1")
    plan = replace(PLAN, locustfile=file)
    RunKeeper(plan).save([make_run()])
    file.write_text("a = 2")

    with pytest.raises(UsageError, match="--locustfile has changed"):
        RunKeeper(plan).load()


def test_what_a_run_failed_for_may_change(make_run: MakeRun, tmp_path: Path) -> None:
    RunKeeper(PLAN).save([make_run()])

    changed = replace(PLAN, server_timeout_s=500.0, run_timeout_s=9.0, log_dir=tmp_path, port=8000)

    assert len(RunKeeper(changed).load().runs) == 1


def test_another_application_or_folder_has_none(make_run: MakeRun, tmp_path: Path) -> None:
    RunKeeper(PLAN).save([make_run()])

    for other in (replace(PLAN, app="other:app"), replace(PLAN, chdir=tmp_path)):
        with pytest.raises(UsageError, match="no unfinished trial"):
            RunKeeper(other).load()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"schema": 2}',
        '{"schema": 1, "settings": {}, "salt": "a", "made": "now", "runs": []}',
        '{"schema": 1, "settings": {}, "salt": 3, "made": "2025-01-02", "runs": []}',
        '{"schema": 1, "settings": {}, "salt": "a", "made": "2025-01-02", "runs": [{"x": 1}]}',
        '{"schema": 1, "settings": {}, "salt": "a", "made": "2025-01-02", "runs": [3]}',
    ],
)
def test_a_file_that_makes_no_sense_is_an_error_with_a_hint(text: str) -> None:
    keeper = RunKeeper(PLAN)
    keeper.path.write_text(text)

    with pytest.raises(UsageError) as raised:
        keeper.load()

    assert "--resume" in raised.value.hint


def test_a_field_of_another_kind_is_found(make_run: MakeRun) -> None:
    keeper = RunKeeper(PLAN)
    keeper.save([make_run()])
    document = json.loads(keeper.path.read_text())
    document["runs"][0]["load"]["requests"] = "many"
    keeper.path.write_text(json.dumps(document))

    with pytest.raises(UsageError, match="cannot be read"):
        keeper.load()


def test_what_is_forgotten_is_gone(make_run: MakeRun) -> None:
    keeper = RunKeeper(PLAN)
    keeper.save([make_run()])

    keeper.forget()
    keeper.forget()

    with pytest.raises(UsageError, match="no unfinished trial"):
        keeper.load()


def test_a_cache_that_every_user_may_write_to_is_refused(cache: Path) -> None:
    (cache / "pasture").mkdir(parents=True)
    (cache / "pasture").chmod(0o777)

    with pytest.raises(UsageError, match="every user may write") as raised:
        cache_folder()

    assert "XDG_CACHE_HOME" in raised.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_cache_of_another_user_is_refused(cache: Path) -> None:
    (cache / "pasture" / "trial").mkdir(parents=True)
    os.chown(cache / "pasture", 65534, 65534)

    with pytest.raises(UsageError, match="belongs to user 65534"):
        cache_folder()


def test_a_cache_that_is_a_file_is_refused(cache: Path) -> None:
    cache.write_text("")

    with pytest.raises(UsageError, match="cannot keep anything"):
        cache_folder()


def test_a_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache_folder() == tmp_path / ".cache" / "pasture" / "trial"
