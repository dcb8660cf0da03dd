"""Loaded into Locust beside a user class: counts requests exactly and records answers.

Runs in the load generator's process, maybe under another interpreter, so it imports
nothing of pasture but one file that needs nothing else. Reads its settings from the JSON file that
the environment variable PASTURE_LOAD names, keeps the progress file at `done answered` (decimal,
fixed width, rewritten in place, so that a reader never sees half a number), and writes the result
file at the end.

A request that names no limit of its own has the trial's. One that passes it is counted apart from
those that were refused, reset or malformed: a time-out says nothing about what the answer is.

Exactness: a request needs a ticket before it is sent. Without one its user stops, so no
request beyond the number is ever under way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import requests
from locust import FastHttpUser, events
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession
from locust.exception import StopUser

_HTTP_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_MAX_BODIES = 64  # digests kept a URL; more only says again that the body is not deterministic
_MAX_SKELETONS = 8  # bodies a URL that are looked into: that takes time of the load's
_MAX_PATHS = 500
_POLL_S = 0.02
_LAST_REQUESTS_S = 10.0  # over the limit of a request
_TIMEOUTS = (TimeoutError, gevent.Timeout, requests.Timeout)
_NO_ANSWER = 0


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


class Record:
    """Answers to the requests of a load."""

    def __init__(self, progress_file: str, skeleton: Callable[..., str]) -> None:
        self.skeleton = skeleton
        self.progress = os.open(progress_file, os.O_WRONLY | os.O_CREAT, 0o600)
        self.done = self.answered = 0
        self.first_start = 0.0
        self.last_end = 0.0
        self.latencies_ms: list[float] = []
        self.statuses: dict[str, Counter[int]] = {}
        self.bodies: dict[str, Counter[str]] = {}
        self.skeletons: dict[str, dict[str, str]] = {}
        self.errors: dict[str, str] = {}
        self.timeouts: Counter[str] = Counter()
        self.paths: dict[str, None] = {}

    def add(
        self, method: str, name: str, url: str, latency_ms: float, response: Any, error: Any
    ) -> None:
        key = f"{method} {name}"
        status = int(getattr(response, "status_code", 0) or _NO_ANSWER)
        statuses = self.statuses.setdefault(key, Counter())
        bodies = self.bodies.setdefault(key, Counter())
        timed_out = _is_timeout(error)
        if timed_out:
            self.timeouts[key] += 1
        else:
            statuses[status] += 1
            if status == _NO_ANSWER:
                self.errors[key] = repr(error)
        digest = _digest(response) if status and not timed_out else None
        if digest and (digest in bodies or len(bodies) < _MAX_BODIES):
            bodies[digest] += 1
            self.look_into(key, digest, response)
        if len(self.paths) < _MAX_PATHS:
            self.paths[f"{method} {_path(url or name)}"] = None
        self.latencies_ms.append(latency_ms)
        now = time.perf_counter()
        self.last_end = now
        self.first_start = min(self.first_start or now, now - latency_ms / 1000)
        self.done += 1
        self.answered += status != _NO_ANSWER and not timed_out
        os.pwrite(self.progress, b"%012d %012d" % (self.done, self.answered), 0)

    def look_into(self, key: str, digest: str, response: Any) -> None:
        known = self.skeletons.setdefault(key, {})
        if digest not in known and len(known) < _MAX_SKELETONS:
            media_type = (response.headers or {}).get("Content-Type") or ""
            known[digest] = self.skeleton(media_type, response.content or b"")  # it is decoded

    def skeletons_of(self, key: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for digest, skeleton in self.skeletons.get(key, {}).items():
            counts[skeleton] += self.bodies[key][digest]
        return counts

    def as_dict(self) -> dict[str, Any]:
        return {
            "requests": self.done,
            "seconds": self.last_end - self.first_start,
            "latencies_ms": [round(value, 3) for value in self.latencies_ms],
            "answers": {
                key: {
                    "statuses": self.statuses[key],
                    "bodies": self.bodies[key],
                    "skeletons": self.skeletons_of(key),
                    "error": self.errors.get(key),
                    "timeouts": self.timeouts[key],
                }
                for key in self.statuses
            },
            "paths": list(self.paths),
        }


def _digest(response: Any) -> str | None:
    """Digest of a body; None for a stream, which may have been read already."""
    try:
        content = response.content
    except Exception:  # whatever the two clients raise for a consumed stream
        return None
    return hashlib.blake2b(content or b"", digest_size=16).hexdigest()


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


def _load_skeleton(path: str) -> Callable[..., str]:
    spec = importlib.util.spec_from_file_location("pasture_skeleton", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    skeleton: Callable[..., str] = module.skeleton
    return skeleton


def install() -> None:
    """Connect counting, recording and stopping to Locust's events."""
    settings = json.loads(Path(os.environ["PASTURE_LOAD"]).read_text(encoding="utf-8"))
    number, timeout_s = int(settings["requests"]), float(settings["request_timeout_s"])
    tickets = Tickets(number)
    record = Record(settings["progress_file"], _load_skeleton(settings["skeleton_file"]))
    sys.path.extend(settings["behind"])
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
            record.add(request_type.upper(), name, url, response_time, response, exception)

    def on_test_start(environment: Any, **_rest: Any) -> None:
        gevent.spawn(_watch, environment.runner, record, tickets, number, timeout_s)

    def on_quitting(**_rest: Any) -> None:
        with open(settings["result_file"], "x", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(record.as_dict(), file)

    events.request.add_listener(on_request)  # type: ignore[no-untyped-call]
    events.test_start.add_listener(on_test_start)  # type: ignore[no-untyped-call]
    events.quitting.add_listener(on_quitting)  # type: ignore[no-untyped-call]


install()
