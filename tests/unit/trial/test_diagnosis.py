"""Logs of servers that did not come up, as these and Python write them."""

import pytest

from pasture.errors import (
    AppImportFailed,
    PastureError,
    PortTaken,
    ServerFailed,
    UnsupportedInterpreter,
)
from pasture_tools.trial import diagnosis
from pasture_tools.trial.responses import UrlAnswers
from pasture_tools.trial.servers import SERVERS

IMPORT_FAILED = """\
[2025-01-01 12:00:00 +0000] [7] [INFO] Starting gunicorn 23.0.0
Traceback (most recent call last):
  File "/site/wsgi.py", line 3, in <module>
    import nowhere
ModuleNotFoundError: No module named 'nowhere'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/site/settings.py", line 9, in <module>
    raise ImproperlyConfigured("the SECRET_KEY is missing")
django.core.exceptions.ImproperlyConfigured: the SECRET_KEY is missing
"""
NO_ATTRIBUTE = """\
Failed to find attribute 'app' in 'site'.
Traceback (most recent call last):
  File "gunicorn/util.py", line 400, in import_app
    raise AppImportError(...)
gunicorn.errors.AppImportError: Failed to find attribute 'app' in 'site'.
"""
IN_USE = """\
[ERROR] Connection in use: ('127.0.0.1', 8000)
[ERROR] Can't connect to ('127.0.0.1', 8000)
"""
OWN = "some line\nerror: CPython 3.99 is not known\nhint: use 3.14\n"


def _early(log: str, exit_code: int = 1, server: str = "gunicorn") -> PastureError:
    return diagnosis.ended_early("site:app", log, exit_code, 8000, SERVERS[server].phrases)


def test_the_last_line_of_the_last_traceback_is_the_reason() -> None:
    error = _early(IMPORT_FAILED)

    assert isinstance(error, AppImportFailed)
    assert error.message.endswith(
        "django.core.exceptions.ImproperlyConfigured: the SECRET_KEY is missing"
    )


def test_what_gunicorn_could_not_find_is_the_reason() -> None:
    error = _early(NO_ATTRIBUTE)

    assert isinstance(error, AppImportFailed)
    assert error.message.endswith("Failed to find attribute 'app' in 'site'.")


def test_an_address_of_the_servers_own_arguments_is_named_as_the_server_names_it() -> None:
    error = _early(IN_USE.replace("8000", "18999"))

    assert isinstance(error, PortTaken)
    assert "18999" in error.message
    assert "8000" not in error.message


def test_an_error_of_pasture_inside_the_server_is_passed_on() -> None:
    error = _early(OWN, UnsupportedInterpreter.exit_code)

    assert type(error) is UnsupportedInterpreter
    assert (error.message, error.hint) == ("CPython 3.99 is not known", "use 3.14")


def test_a_server_that_ends_without_a_reason_shows_its_log() -> None:
    error = _early("going down\n", exit_code=-9)

    assert type(error) is ServerFailed
    assert "-9" in error.message
    assert "going down" in error.hint


def test_an_error_of_the_application_is_not_taken_for_one_of_pasture() -> None:
    error = _early(OWN + "[INFO] Shutting down: Master\n", UnsupportedInterpreter.exit_code)

    assert type(error) is ServerFailed


def test_a_server_in_the_background_is_distinguished() -> None:
    error = _early("", exit_code=0)

    assert type(error) is ServerFailed
    assert "daemon" in error.hint


@pytest.mark.parametrize(
    ("statuses", "words"),
    [({500: 2}, "always answers 500"), ({0: 2}, "no request: refused"), ({0: 1, 503: 1}, "503")],
)
def test_a_url_that_never_works_is_reported_with_what_it_gave(
    statuses: dict[int, int], words: str
) -> None:
    found = UrlAnswers(statuses, {}, error="refused")

    phrases = SERVERS["gunicorn"].phrases
    assert words in diagnosis.always_failing("GET /x", found, "", phrases).message


@pytest.mark.parametrize(
    ("server", "argument", "what", "hint"),
    [
        ("gunicorn", "send", "is ASGI", "-- -k"),
        ("uwsgi", "send", "is ASGI", "--server uvicorn"),
        ("uvicorn", "start_response", "is WSGI", "--server gunicorn"),
    ],
)
def test_an_application_of_the_other_kind_is_reported_with_what_serves_it(
    server: str, argument: str, what: str, hint: str
) -> None:
    found = UrlAnswers({500: 3}, {}, error=None)
    log = f"""[ERROR] Error handling request GET /
Traceback (most recent call last):
  File "sync.py", line 184, in handle_request
TypeError: FastAPI.__call__() missing 1 required positional argument: '{argument}'
"""
    error = diagnosis.always_failing("GET /", found, log, SERVERS[server].phrases)
    assert what in error.message
    assert hint in error.hint


def test_an_error_of_our_own_before_other_lines_is_looked_for_without_an_end() -> None:
    """As a chained traceback behind it, whose lines are indented."""
    frames = "".join(f'  File "site/part{i}.py", line {i}, in f\n    f()\n' for i in range(40))
    error = _early(f"error: the application ended\nhint: see\n{frames}ValueError: no\n", 3)

    assert isinstance(error, ServerFailed)


def test_a_hint_of_several_lines_is_kept_whole() -> None:
    error = _early("x\nerror: no layout\nhint: see\n    one\n      two\n\n", 3)

    assert (error.message, error.hint) == ("no layout", "see\n    one\n      two")


def test_workers_that_uvicorn_ends_while_they_import_lead_to_its_own_option() -> None:
    log = "INFO: Child process [7] died\n" * 3
    error = diagnosis.workers_died("site:app", log, SERVERS["uvicorn"].phrases)
    assert "--timeout-worker-healthcheck 60" in error.hint
    failed = diagnosis.workers_died("site:app", IMPORT_FAILED + log, SERVERS["uvicorn"].phrases)
    assert isinstance(failed, AppImportFailed)


@pytest.mark.parametrize("server", ["gunicorn", "uvicorn"])
def test_a_factory_that_was_called_as_an_application_is_named_as_one(server: str) -> None:
    given = 2 if server == "gunicorn" else 3
    log = f"TypeError: create_app() takes 0 positional arguments but {given} were given\n"
    found = UrlAnswers({500: 7}, {})
    error = diagnosis.always_failing("GET /", found, log, SERVERS[server].phrases)
    assert error.hint.endswith("MODULE:create_app()")
