"""Engines that a program of the user's may start, by its arguments."""

import pytest

from pasture.servers import import_watch


@pytest.mark.parametrize(
    "arguments",
    [
        ["app.py", "gunicorn"],
        ["-m", "site_api"],
        ["-c", "import gunicorn"],
        [],
        ["-m"],
        ["celerys"],
    ],
)
def test_any_engine_may_be_started_by_a_program_that_is_none(arguments: list[str]) -> None:
    switches = import_watch.switches_of(arguments)
    assert switches["gunicorn.app.base"] == "pasture.servers.gunicorn"
    assert switches["uvicorn.main"] == "pasture.servers.uvicorn"
    assert not [seen for seen in switches if seen.startswith("multiprocessing")]


@pytest.mark.parametrize(
    "arguments",
    [["-m", "celery", "worker"], ["/opt/bin/celery"], ["celery.py"], ["-m", "celery.x"]],
)
def test_a_program_that_is_an_engine_starts_no_other(arguments: list[str]) -> None:
    assert import_watch.switches_of(arguments) == {"celery.apps.worker": "pasture.servers.celery"}
