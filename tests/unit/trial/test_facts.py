"""What a trial knows of each server: how it is started, what is not for a trial, what it says."""

from pathlib import Path

import pytest

from pasture.errors import AppImportFailed, PastureError, ServerFailed, UsageError
from pasture.proc import tree
from pasture.servers.engines import ENGINES
from pasture_tools.trial import diagnosis, server
from pasture_tools.trial.plan import TrialPlan, check_plan
from pasture_tools.trial.server import RunFiles, have_workers_died, server_environment
from pasture_tools.trial.servers import SERVERS
from pasture_tools.trial.trial import schedule

NO_MODULE = 'ERROR:    Error loading ASGI app. Could not import module "nowhere".\n'
DIED = "INFO:     Child process [71] died\n"
NO_START = """ERROR:    Traceback (most recent call last):
  File "site.py", line 3, in lifespan
RuntimeError: no database

ERROR:    Application startup failed. Exiting.
"""


def command(plan: TrialPlan, policy: str, folder: Path) -> list[str]:
    return server.server_command(plan, policy, 8123, RunFiles(folder, folder / "log"))


def test_each_server_is_one_that_pasture_runs() -> None:
    assert set(SERVERS) <= set(ENGINES)
    assert all(facts.name == name for name, facts in SERVERS.items())


@pytest.mark.parametrize(
    ("name", "plain"), [("uvicorn", ["-m", "uvicorn"]), ("uwsgi", ["-c", "import sys, pyuwsgi; "])]
)
def test_stock_is_the_plain_server_and_every_other_policy_pastures(
    name: str, plain: list[str], tmp_path: Path
) -> None:
    plan = TrialPlan(app="site:app", server=name)

    stock, seal = (command(plan, policy, tmp_path) for policy in ("stock", "seal"))

    assert stock[1] == plain[0] and stock[2].startswith(plain[1])
    assert seal[1:7] == ["-m", "pasture", "run", "--policy", "seal", name]
    assert stock[3:] == seal[7:]


@pytest.mark.parametrize("name", SERVERS)
def test_workers_and_address_of_the_trial_win_over_the_users(name: str, tmp_path: Path) -> None:
    options = {"gunicorn": "--workers", "uvicorn": "--workers", "uwsgi": "--processes"}
    plan = TrialPlan(app="site:app", server=name, workers=3, server_args=("--x", "1"))

    words = command(plan, "seal", tmp_path)

    assert words[words.index(options[name]) + 1] == "3"
    assert "8123" in words or "127.0.0.1:8123" in words
    if name != "gunicorn":  # whose command line has been so since before there were others
        assert words.index("--x") < words.index(options[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uwsgi", ("--ini", "site.ini")),
        ("uwsgi", ("site.ini",)),
        ("uwsgi", ("--yaml=/etc/site.yml",)),
        ("uwsgi", ("-s", "/run/site.sock")),
        ("uwsgi", ("-s/run/site.sock",)),
        ("uwsgi", ("--http-socket", ":80")),
        ("uwsgi", ("--stats=:9191",)),
        ("uwsgi", ("--safe-pidfile", "/run/site.pid")),
        ("uwsgi", ("--daemonize", "/var/log/site.log")),
        ("uvicorn", ("--uds", "/run/site.sock")),
        ("uvicorn", ("--fd=3",)),
        ("uvicorn", ("--reload",)),
    ],
)
def test_what_may_reach_a_server_in_production_is_refused(
    name: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="is not for a trial"):
        check_plan(TrialPlan(app="site:app", server=name, server_args=words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uwsgi", ("--threads", "4", "--buffer-size=8192", "--enable-threads", "-b", "8192")),
        ("uvicorn", ("--interface", "wsgi", "--log-level", "warning")),
        ("gunicorn", ("--config", "gunicorn.conf.py")),
    ],
)
def test_other_options_of_the_user_are_taken(name: str, words: tuple[str, ...]) -> None:
    check_plan(TrialPlan(app="site:app", server=name, server_args=words))


def test_a_variable_that_names_a_socket_is_refused_and_one_of_the_surroundings_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="UWSGI_HTTP_SOCKET"):
        check_plan(TrialPlan(app="a", server="uwsgi", env={"UWSGI_HTTP_SOCKET": ":80"}))

    monkeypatch.setenv("UWSGI_SOCKET", "/run/site.sock")
    monkeypatch.setenv("UWSGI_THREADS", "4")
    files = RunFiles(tmp_path, tmp_path / "log")
    variables = server_environment(TrialPlan(app="a", server="uwsgi"), "stock", files)

    assert "UWSGI_SOCKET" not in variables
    assert variables["UWSGI_THREADS"] == "4"
    assert "UWSGI_SOCKET" in server_environment(TrialPlan(app="a"), "stock", files)


def test_a_server_that_needs_a_parent_is_not_tried_with_one_worker() -> None:
    with pytest.raises(UsageError, match="serves in one process"):
        check_plan(TrialPlan(app="a", server="uvicorn", workers=1))

    check_plan(TrialPlan(app="a", server="uwsgi", workers=1))


def test_no_server_of_that_name_is_an_error_that_names_all() -> None:
    with pytest.raises(UsageError) as caught:
        check_plan(TrialPlan(app="a", server="apache"))

    assert all(name in caught.value.hint for name in SERVERS)


def test_a_policy_that_a_server_has_not_is_not_run_and_its_row_says_why() -> None:
    plan = TrialPlan(app="a", server="uvicorn", policies=("refork", "stock", "seal"))

    check_plan(plan)

    assert [policy for _, policy in schedule(plan)] == ["stock", "seal"]
    assert list(plan.impossible) == ["refork"]
    assert "only gunicorn can refork" in plan.impossible["refork"]
    without_stock = TrialPlan(app="a", server="uvicorn", policies=("refork", "seal"))
    assert without_stock.reference == "seal"
    assert TrialPlan(app="a", policies=("refork", "seal")).reference == "refork"


def test_a_trial_of_nothing_that_the_server_has_is_refused() -> None:
    with pytest.raises(UsageError, match="refork"):
        check_plan(TrialPlan(app="a", server="uwsgi", policies=("refork",)))


def test_workers_of_plain_uvicorn_are_looked_for_among_the_spawned() -> None:
    assert SERVERS["uvicorn"].workers_of("stock") is tree.spawned_workers
    assert SERVERS["uvicorn"].workers_of("seal") is tree.forked_workers
    assert SERVERS["uwsgi"].workers_of("stock") is tree.forked_workers


def _died(log: str) -> PastureError:
    return diagnosis.workers_died("site:app", log, SERVERS["uvicorn"].phrases)


def test_uvicorn_never_comes_up_where_as_many_workers_died_as_there_should_be() -> None:
    phrases = SERVERS["uvicorn"].phrases

    assert not have_workers_died(DIED, phrases, 2)
    assert have_workers_died(DIED + "other\n" + DIED, phrases, 2)
    assert not have_workers_died(DIED * 9, SERVERS["gunicorn"].phrases, 2)


def test_uvicorns_reason_stands_in_for_an_error_of_pastures_that_points_to_it() -> None:
    log = NO_MODULE + "error: nowhere:app cannot be loaded\nhint: uvicorn's line above says why\n"
    phrases, code = SERVERS["uvicorn"].phrases, AppImportFailed.exit_code

    error = diagnosis.ended_early("nowhere:app", log, code, 8000, phrases)

    assert isinstance(error, AppImportFailed)
    assert error.message.endswith('Could not import module "nowhere".')


def test_why_uvicorns_workers_died_is_reported() -> None:
    missing, starting, unknown = _died(NO_MODULE + DIED), _died(NO_START + DIED), _died(DIED)

    assert isinstance(missing, AppImportFailed)
    assert missing.message.endswith('Could not import module "nowhere".')
    assert type(starting) is type(unknown) is ServerFailed
    assert "cannot be started: RuntimeError: no database" in starting.message
    assert "workers exit" in unknown.message
