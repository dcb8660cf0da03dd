"""Loaded into Locust with a user's locustfile: counts requests exactly and records answers.

Runs in the load generator's process, maybe under another interpreter. Reads its settings from the
JSON file that the environment variable PASTURE_LOAD names; `record` has the files that it writes.

A request that names no limit of its own has the trial's. One that passes it is counted apart from
those that were refused, reset or malformed: a time-out says nothing about what the answer is.

Exactness: a request needs a ticket before it is sent. Without one its user stops, so no
request beyond the number is ever under way.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import requests
from locust import FastHttpUser, events
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession
from locust.exception import StopUser

if TYPE_CHECKING:
    from pasture.trial.client.record import NO_ANSWER, Outcome, Record, load_skeleton
else:  # by its path, and under a name that no module of a locustfile has
    _SPEC = spec_from_file_location("pasture_load_record", Path(__file__).with_name("record.py"))
    _RECORD = sys.modules[_SPEC.name] = module_from_spec(_SPEC)
    _SPEC.loader.exec_module(_RECORD)
    NO_ANSWER, Outcome, Record = _RECORD.NO_ANSWER, _RECORD.Outcome, _RECORD.Record
    load_skeleton = _RECORD.load_skeleton

_HTTP_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_POLL_S = 0.02
_LAST_REQUESTS_S = 10.0  # over the limit of a request
_TIMEOUTS = (TimeoutError, gevent.Timeout, requests.Timeout)


class Tickets:
    """The number of requests that may still be sent."""

    def __init__(self, number: int) -> None:
        self.left = number

    def take(self) -> None:
        if self.left <= 0:
            raise StopUser
        self.left -= 1

    def give_back(self) -> None:
        self.left += 1


def _outcome(
    method: str, name: str, url: str, latency_ms: float, response: Any, error: Any
) -> Outcome:
    """The outcome of a request, in the terms of the record; Locust's two clients differ."""
    timed_out = _is_timeout(error)
    status = int(getattr(response, "status_code", 0) or NO_ANSWER)
    headers = (getattr(response, "headers", None) or {}) if status else {}
    return Outcome(
        method,
        name,
        _path(url or name),
        latency_ms,
        status,
        _content(response) if status and not timed_out else None,
        headers.get("Content-Type") or "",
        repr(error),
        timed_out,
    )


def _content(response: Any) -> bytes | None:
    """The body, decoded; None for a stream, which may have been read already."""
    try:
        content: bytes | None = response.content
    except Exception:  # whatever the two clients raise for a consumed stream
        return None
    return content or b""


def _is_timeout(error: Any) -> bool:
    """Whether a limit of time ended a request, however deep the client has wrapped that."""
    seen: list[Any] = []
    while isinstance(error, BaseException) and error not in seen:
        if isinstance(error, _TIMEOUTS):
            return True
        seen.append(error)
        original = getattr(error, "original", None)  # as Locust's own client has it
        error = original or error.__cause__ or error.__context__
    return False


def _path(url: str) -> str:
    _, scheme, rest = url.partition("://")
    if not scheme:
        return url
    _, slash, path = rest.partition("/")
    return slash + path if slash else "/"


def _limit_requests(timeout_s: float) -> None:
    """Give each request a limit of time, unless the locustfile names one."""
    FastHttpUser.network_timeout = FastHttpUser.connection_timeout = timeout_s
    send = HttpSession.request

    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = timeout_s
        return send(self, *args, **kwargs)

    HttpSession.request = request  # type: ignore[method-assign]


def _sell_tickets(session: type, tickets: Tickets) -> None:
    """Make a client's `request` take a ticket, and give it back if nothing was sent."""
    send = session.request  # type: ignore[attr-defined]

    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        tickets.take()
        try:
            return send(self, *args, **kwargs)
        except Exception:
            tickets.give_back()
            raise

    session.request = request  # type: ignore[attr-defined]


def _watch(runner: Any, record: Record, tickets: Tickets, number: int, timeout_s: float) -> None:
    """Quit once all requests are answered, or those under way were given enough time."""
    while record.done < number and tickets.left > 0:
        gevent.sleep(_POLL_S)
    deadline = time.monotonic() + timeout_s + _LAST_REQUESTS_S
    while record.done < number and runner.user_count and time.monotonic() < deadline:
        gevent.sleep(_POLL_S)
    runner.quit()


def install() -> None:
    """Connect counting, recording and stopping to Locust's events."""
    settings = json.loads(Path(os.environ["PASTURE_LOAD"]).read_text(encoding="utf-8"))
    number, timeout_s = int(settings["requests"]), float(settings["request_timeout_s"])
    tickets = Tickets(number)
    record = Record(settings["progress_file"], load_skeleton())
    _limit_requests(timeout_s)
    for session in (HttpSession, FastHttpSession):
        _sell_tickets(session, tickets)

    def on_request(
        request_type: str,
        name: str,
        response_time: float,
        response: Any = None,
        url: str = "",
        exception: Any = None,
        **_rest: Any,
    ) -> None:
        if request_type.upper() in _HTTP_METHODS:
            method = request_type.upper()
            record.add(_outcome(method, name, url, response_time, response, exception))

    def on_test_start(environment: Any, **_rest: Any) -> None:
        gevent.spawn(_watch, environment.runner, record, tickets, number, timeout_s)

    def on_quitting(**_rest: Any) -> None:
        record.write(settings["result_file"])

    events.request.add_listener(on_request)  # type: ignore[no-untyped-call]
    events.test_start.add_listener(on_test_start)  # type: ignore[no-untyped-call]
    events.quitting.add_listener(on_quitting)  # type: ignore[no-untyped-call]


install()
