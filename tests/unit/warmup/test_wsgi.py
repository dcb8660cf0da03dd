"""Serving requests through a WSGI application object, and what is reported of it."""

import contextvars
import sys
import threading
from collections.abc import Iterable, Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.errors import UsageError
from pasture.warmup import wsgi
from pasture.warmup.requests import Header, Request
from pasture.warmup.warmup import warm_up

Environ = dict[str, Any]


class Application:
    """Answers 200 and remembers each environ; subclassed where it must do worse."""

    def __init__(self) -> None:
        self.seen: list[Environ] = []

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        self.seen.append(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"body"]


def answering(status: str, body: Iterable[bytes] = ()) -> Any:
    def application(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response(status, [])
        return body

    return application


def test_an_environ_is_what_a_server_would_make() -> None:
    application = Application()
    warm_up(
        application,
        ["post /caf%C3%A9/a%2Fb?q=%20x&y"],
        headers=[("Cookie", "sessionid=1"), ("Content-Type", "text/x")],
        host="shop.test:8000",
    )
    [environ] = application.seen
    assert environ["REQUEST_METHOD"] == "POST"
    assert environ["PATH_INFO"] == "/café/a/b".encode().decode("latin-1")
    assert environ["QUERY_STRING"] == "q=%20x&y"
    assert environ["HTTP_COOKIE"] == "sessionid=1"
    assert environ["CONTENT_TYPE"] == "text/x"
    assert "HTTP_CONTENT_TYPE" not in environ
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("shop.test", "8000")
    assert environ["HTTP_HOST"] == "shop.test:8000"
    assert environ["wsgi.multiprocess"] is True
    assert environ["wsgi.input"].read() == b""


def test_an_environ_passes_the_validator_of_the_standard_library() -> None:
    from wsgiref.validate import validator

    report = warm_up(validator(Application()), ["/a?b=c"])
    assert report.problems == ()


@pytest.mark.parametrize(
    ("request_", "headers", "host", "name", "port"),
    [
        (Request("GET", "/"), (), "localhost", "localhost", "80"),
        (Request("GET", "/", "https", "a.test"), (), "localhost", "a.test", "443"),
        (Request("GET", "/"), [("Host", "b.test:81")], "localhost", "b.test", "81"),
        (Request("GET", "/", "http", "a.test"), [("Host", "b.test")], "x", "a.test", "80"),
        (Request("GET", "/"), (), "[::1]:8000", "[::1]", "8000"),
        (Request("GET", "/"), (), "[::1]", "[::1]", "80"),
    ],
)
def test_the_host_comes_from_the_request_then_the_headers_then_the_server(
    request_: Request, headers: Iterable[Header], host: str, name: str, port: str
) -> None:
    environ = wsgi.build_environ(request_, headers, host)
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == (name, port)


def test_a_client_error_is_an_answer_like_any_other() -> None:
    report = warm_up(answering("404 Not Found"), ["/"])
    assert report.counts == {"requests": 1, "failed": 0}
    assert report.problems == ()


def test_a_server_error_is_reported_and_the_next_request_is_served() -> None:
    def application(environ: Environ, start: Any) -> list[bytes]:
        start("503 Busy" if environ["PATH_INFO"] == "/bad" else "200 OK", [])
        return []

    report = warm_up(application, ["/bad", "/good"])
    assert [answer.status for answer in report.answers] == [503, 200]
    assert report.problems == ("GET /bad: 503",)


@pytest.mark.parametrize("raised", [ValueError("broken"), SystemExit(1)])
def test_an_exception_is_reported_and_does_not_end_the_parent(raised: BaseException) -> None:
    def application(environ: Environ, start: Any) -> list[bytes]:
        raise raised

    report = warm_up(application, ["/", "/two"])
    assert report.counts == {"requests": 2, "failed": 2}
    assert report.problems[0] == f"GET /: {type(raised).__name__}: {raised}"


def test_an_interrupt_does_end_it() -> None:
    def application(environ: Environ, start: Any) -> list[bytes]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm_up(application, ["/"])


class Body:
    """An iterable response that notes when it is closed."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = chunks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def close(self) -> None:
        self.closed = True


def test_a_response_is_read_to_its_end_and_closed() -> None:
    body = Body(iter([b"a", b"b"]))
    warm_up(answering("200 OK", body), ["/"])
    assert next(body.chunks, None) is None
    assert body.closed


def test_a_response_that_fails_half_way_is_closed() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"a"
        raise OSError("gone")

    body = Body(chunks())
    report = warm_up(answering("200 OK", body), ["/"])
    assert body.closed
    assert report.problems == ("GET /: OSError: gone",)


def test_an_endless_response_is_left_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsgi, "BODY_LIMIT_BYTES", 1000)

    def application(environ: Environ, start: Any) -> Iterator[bytes]:
        start("200 OK", [])
        while True:
            yield b"x" * 100

    assert warm_up(application, ["/"]).answers[0].status == 200


def test_an_answer_may_be_replaced_by_an_error_page_before_anything_is_sent() -> None:
    def application(environ: Environ, start: Any) -> list[bytes]:
        start("200 OK", [])
        try:
            raise ValueError("late")
        except ValueError as error:
            start("500 Oops", [], (ValueError, error, error.__traceback__))
        return [b"page"]

    assert warm_up(application, ["/"]).answers[0].status == 500


def test_a_body_may_be_written_through_the_write_function() -> None:
    def application(environ: Environ, start: Any) -> list[bytes]:
        write = start("200 OK", [])
        write(b"old style")
        return []

    assert warm_up(application, ["/"]).answers[0].status == 200


def test_an_application_that_never_starts_its_response_has_failed() -> None:
    [answer] = warm_up(lambda environ, start: [b"x"], ["/"]).answers
    assert answer.failed
    assert "start_response" in str(answer.error)


def test_nothing_is_served_when_a_request_is_malformed() -> None:
    application = Application()
    with pytest.raises(UsageError):
        warm_up(application, ["/", "not a request at all"])
    assert application.seen == []


def test_what_a_request_sets_for_itself_is_not_left_behind() -> None:
    language = contextvars.ContextVar("language", default="en")

    def application(environ: Environ, start: Any) -> list[bytes]:
        language.set("de")
        start("200 OK", [])
        return []

    warm_up(application, ["/"])
    assert language.get() == "en"


def test_threads_that_requests_started_are_reported() -> None:
    stop = threading.Event()

    def application(environ: Environ, start: Any) -> list[bytes]:
        threading.Thread(target=stop.wait, name="queue-reader").start()
        start("200 OK", [])
        return []

    try:
        report = warm_up(application, ["/"])
    finally:
        stop.set()
    assert report.problems == ("a request started thread queue-reader",)


def test_each_answer_is_reported_as_it_comes() -> None:
    answers: list[str] = []
    warm_up(Application(), ["/a", "/b"], on_answer=lambda a: answers.append(str(a)))
    assert answers == ["GET /a: 200", "GET /b: 200"]


def test_two_requests_do_not_share_an_input() -> None:
    application = Application()
    warm_up(application, ["/", "/"])
    inputs = [environ["wsgi.input"] for environ in application.seen]
    assert all(isinstance(stream, BytesIO) for stream in inputs)
    assert inputs[0] is not inputs[1]


def test_new_relics_agent_records_nothing_and_so_does_not_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = SimpleNamespace(enabled=True)
    agent = SimpleNamespace(global_settings=lambda: settings)
    made: list[bool] = []
    core = SimpleNamespace(agent_instance=lambda: made.append(settings.enabled))
    monkeypatch.setitem(sys.modules, "newrelic.agent", agent)
    monkeypatch.setitem(sys.modules, "newrelic.core.agent", core)
    seen: list[bool] = []

    def application(environ: Environ, start_response: Any) -> Iterable[bytes]:
        seen.append(settings.enabled)
        start_response("200 OK", [])
        raise ValueError

    warm_up(application, ["/"])
    assert (seen, settings.enabled) == ([False], True)
    assert made == [True], "one that is made while switched off sends nothing at the exit"


def test_an_agent_of_new_relic_that_is_switched_off_stays_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = SimpleNamespace(enabled=False)
    agent = SimpleNamespace(global_settings=lambda: settings)
    monkeypatch.setitem(sys.modules, "newrelic.agent", agent)
    warm_up(Application(), ["/"])
    assert settings.enabled is False


def test_the_report_says_what_was_served() -> None:
    application = answering("404 Not Found")
    report = warm_up(application, ["/"])
    assert [answer.status for answer in report.answers] == [404]
    assert (report.application, report.host, report.startup_s) == (application, "localhost", None)
