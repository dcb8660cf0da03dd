"""The command at the end of a trial: that of the best policy, for this application."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pasture.warmup.requests import Request
from pasture_tools.trial.command import best_command, on_reforks
from pasture_tools.trial.measurement import Run, TrialResult
from pasture_tools.trial.responses import Disagreement

pytestmark = pytest.mark.once

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


URLS = (Request("GET", "/a"),)


def test_a_file_of_the_users_is_named(make_result: MakeResult) -> None:
    result = make_result(urls=URLS, headers=(("Cookie", "secret"),), warm_file=Path("urls.txt"))
    expected = "pasture run --warm-file urls.txt gunicorn site:application -w 4"
    assert best_command(result) == expected


def test_a_command_without_requests_of_the_users_serves_none_before_the_fork(
    make_result: MakeResult,
) -> None:
    learns = "pasture run --auto gunicorn site:application -w 4"
    many = tuple(Request("GET", f"/{i}") for i in range(5))

    assert best_command(make_result()) == learns
    assert best_command(make_result(urls=many)) == learns
    assert best_command(make_result(headers=(("Cookie", "secret"),))) == learns


def test_the_users_own_warm_up_arguments_and_folder_are_in_it(make_result: MakeResult) -> None:
    result = make_result(
        warm=(Request("HEAD", "/a b"),), server_args=("-k", "gthread"), chdir=Path("/my site")
    )
    words = shlex.split(best_command(result))

    assert words[:3] == ["cd", "/my site", "&&"]
    assert words[3:] == [
        *("pasture", "run", "--warm", "HEAD /a b"),
        *("gunicorn", "site:application", "-w", "4", "-k", "gthread"),
    ]


@pytest.mark.parametrize(
    ("server", "ends"),
    [
        ("uvicorn", "uvicorn site:application --workers 4"),
        ("uwsgi", "uwsgi --master --processes 4 --module site:application"),
    ],
)
def test_each_server_is_started_in_its_own_words(
    make_result: MakeResult, server: str, ends: str
) -> None:
    assert best_command(make_result(server=server)) == f"pasture run --auto {ends}"


@pytest.mark.parametrize(
    ("policy", "begins"),
    [
        ("freeze", "pasture run --policy freeze gunicorn"),
        ("warm-freeze", "pasture run --policy warm-freeze --warm /a gunicorn"),
    ],
)
def test_it_is_the_command_of_the_policy_that_saves_most(
    make_result: MakeResult, make_run: MakeRun, policy: str, begins: str
) -> None:
    runs = (make_run("stock"), make_run("seal", private=9 * MB), make_run(policy, private=5 * MB))

    assert best_command(make_result(*runs, urls=URLS)) == f"{begins} site:application -w 4"


def test_a_refork_that_saves_more_is_no_command_but_two_sentences(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    stock, seal = make_run("stock"), make_run("seal", private=9 * MB)
    result = make_result(stock, seal, make_run("refork", private=5 * MB))

    assert best_command(result) == "pasture run --auto gunicorn site:application -w 4"
    assert on_reforks(result) == (
        "A refork would save 16.0 MB more: workers become copies of one that has served, and "
        "share what it holds. Read docs/refork.md, then add --refork 50,500,2000."
    )


@pytest.mark.parametrize("private_mb", [9, 12])
def test_a_refork_that_saves_no_more_is_not_named(
    make_result: MakeResult, make_run: MakeRun, private_mb: int
) -> None:
    stock, seal = make_run("stock"), make_run("seal", private=9 * MB)
    assert on_reforks(make_result(stock, seal)) == ""
    assert on_reforks(make_result(stock, seal, make_run("refork", private=private_mb * MB))) == ""


def test_where_only_a_refork_saves_there_is_no_command(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    result = make_result(make_run("stock"), make_run("refork", private=5 * MB))
    assert best_command(result) == "" and on_reforks(result).startswith("A refork would save 60")


def test_a_policy_that_answers_differently_or_fell_short_is_not_recommended(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    second = make_run("freeze", private=9 * MB)
    short = make_run("seal", private=5 * MB, shortfalls=("did not seal: a thread",))
    wrong = make_result(make_run("stock"), second, make_run("seal", private=5 * MB))
    differs = Disagreement("GET /", "status", "200", "500")
    wrong = replace(
        wrong,
        policies=(*wrong.policies[:2], replace(wrong.policies[2], disagreements=(differs,))),
    )

    for result in (wrong, make_result(make_run("stock"), second, short)):
        assert "--policy freeze" in best_command(result)
