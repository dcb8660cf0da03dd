"""Serving requests through an ASGI application object: its lifespan, its scope, its faults."""

import asyncio
import contextvars
import threading
import time
from typing import Any

from pasture.warmup.warmup import warm_up
from pasture.warmup.wsgi import BODY_LIMIT_BYTES

Scope = dict[str, Any]


class Application:
    """Answers 200, reports what happened to it; subclassed where it must do worse."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await getattr(self, scope["type"])(scope, receive, send)

    async def lifespan(self, scope: Scope, receive: Any, send: Any) -> None:
        for what in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{what}"
            self.events.append((what, id(asyncio.get_running_loop())))
            scope["state"]["pool"] = "open"
            await send({"type": f"lifespan.{what}.complete"})

    async def http(self, scope: Scope, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        self.events.append((scope["path"], id(asyncio.get_running_loop())))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


def test_the_requests_are_served_between_start_and_end_in_one_loop() -> None:
    application = Application()
    report = warm_up(application, ["/a", "/b"], lifespan=True)
    assert [what for what, _ in application.events] == ["startup", "/a", "/b", "shutdown"]
    assert len({loop for _, loop in application.events}) == 1
    assert report.counts == {"requests": 2, "failed": 0}
    assert report.problems == ()


def test_a_scope_is_what_a_server_would_make() -> None:
    application = Application()
    warm_up(
        application,
        ["post /caf%C3%A9?q=%20x&y"],
        headers=[("Cookie", "sessionid=1")],
        host="shop.test:8000",
        lifespan=True,
    )
    [scope] = application.scopes
    assert (scope["method"], scope["path"]) == ("POST", "/café")
    assert (scope["raw_path"], scope["query_string"]) == (b"/caf%C3%A9", b"q=%20x&y")
    assert (b"cookie", b"sessionid=1") in scope["headers"]
    assert (b"host", b"shop.test:8000") in scope["headers"]
    assert scope["server"] == ("shop.test", 8000)
    assert scope["state"] == {"pool": "open"}


def test_an_application_without_a_lifespan_is_served_without_one() -> None:
    class Plain(Application):
        async def lifespan(self, scope: Scope, receive: Any, send: Any) -> None:
            raise ValueError("I know http only")

    report = warm_up(Plain(), ["/"], lifespan=True)
    assert [answer.status for answer in report.answers] == [200]
    assert report.problems == ()


def test_an_application_that_cannot_start_serves_nothing_and_the_report_says_why() -> None:
    class Broken(Application):
        async def lifespan(self, scope: Scope, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "no database"})

    report = warm_up(Broken(), ["/"], lifespan=True)
    assert report.answers == ()
    assert report.problems == ("the application's lifespan: startup: no database",)


def test_a_failed_request_is_reported_and_the_next_one_is_served() -> None:
    class Moody(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            match scope["path"]:
                case "/raises":
                    raise ValueError("broken")
                case "/silent":
                    return
                case "/exits":
                    raise SystemExit(3)
            await super().http(scope, receive, send)

    report = warm_up(Moody(), ["/raises", "/silent", "/good", "/exits"])
    assert [answer.error for answer in report.answers] == [
        "ValueError: broken",
        "RuntimeError: the application sent no answer",
        None,
        "SystemExit: 3",
    ]


def test_an_endless_response_is_read_to_the_limit_only() -> None:
    sent = 0

    class Endless(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            nonlocal sent
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
                sent += 1

    [answer] = warm_up(Endless(), ["/"]).answers
    assert answer.status == 200
    assert sent == BODY_LIMIT_BYTES / 2**20


def test_the_client_stays_until_it_has_its_answer() -> None:
    class Careful(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            self.events.append((await receive())["type"])
            gone = asyncio.create_task(receive())
            await asyncio.sleep(0)
            assert not gone.done()
            await super().http(scope, receive, send)
            self.events.append((await gone)["type"])

    application = Careful()
    assert warm_up(application, ["/"]).problems == ()
    assert "http.request" in application.events
    assert "http.disconnect" in application.events


def test_the_loop_and_its_threads_are_gone_after_the_warm_up() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Threaded(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            loops.append(asyncio.get_running_loop())
            await asyncio.to_thread(threading.get_ident)
            await super().http(scope, receive, send)

    before = threading.active_count()
    report = warm_up(Threaded(), ["/"])
    assert report.threads == ()
    assert threading.active_count() <= before  # one of an earlier test may have ended
    assert loops[0].is_closed()


def test_a_thread_that_is_about_to_end_is_waited_for() -> None:
    class Parting(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            threading.Thread(target=time.sleep, args=(0.1,)).start()
            await super().http(scope, receive, send)

    before = threading.active_count()
    assert warm_up(Parting(), ["/"]).threads == ()
    assert threading.active_count() <= before  # one of an earlier test may have ended


def test_what_a_request_sets_for_itself_is_not_left_behind() -> None:
    language = contextvars.ContextVar("language", default="en")
    seen: list[str] = []

    class Speaking(Application):
        async def http(self, scope: Scope, receive: Any, send: Any) -> None:
            seen.append(language.get())
            language.set("de")
            await super().http(scope, receive, send)

    warm_up(Speaking(), ["/", "/"])
    assert [*seen, language.get()] == ["en", "en", "en"]


def test_inside_a_running_loop_nothing_is_served_and_the_report_says_why() -> None:
    async def program() -> Any:
        return warm_up(Application(), ["/"])

    report = asyncio.run(program())
    assert report.answers == ()
    assert "running event loop" in report.problems[0]


def test_the_report_says_how_long_the_start_took() -> None:
    report = warm_up(Application(), ["/"], lifespan=True)
    assert report.startup_s is not None and report.startup_s >= 0
