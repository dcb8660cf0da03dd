"""The middleware of the metrics, over an application that is made up."""

import os
from functools import partial
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from pasture_tools.metrics import middleware


def site(environ: dict[str, Any], start_response: object) -> list[bytes]:
    return [b"the site"]


def test_a_client_that_asks_again_and_again_has_the_figures_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = []

    def read(registry: object) -> bytes:
        readings.append(registry)
        return b"text"

    monkeypatch.setattr(middleware, "generate_latest", read)
    application = middleware.Metrics(site)
    calls: list[Any] = []
    for _ in range(5):
        body = application({"PATH_INFO": "/metrics"}, lambda *words: calls.append(words))
        assert body == [b"text"]
    assert len(readings) == 1 and len(calls) == 5
    assert calls[0][0] == "200 OK" and dict(calls[0][1])["Content-Length"] == "4"


def test_other_paths_are_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "generate_latest", lambda registry: pytest.fail("was read"))
    application = middleware.Metrics(site, "/figures")
    for environ in ({"PATH_INFO": "/"}, {"PATH_INFO": "/metrics"}, {}):
        assert application(environ, lambda *words: None) == [b"the site"]


def test_figures_are_read_anew_once_they_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([b"first", b"second"])
    monkeypatch.setattr(middleware, "generate_latest", lambda registry: next(readings))
    application = middleware.Metrics(site, kept_s=0)
    ask = partial(application, {"PATH_INFO": "/metrics"}, lambda *words: None)
    assert [ask(), ask()] == [[b"first"], [b"second"]]


def test_what_the_master_read_at_its_warm_up_is_not_what_workers_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(middleware, "generate_latest", lambda registry: str(os.getpid()).encode())
    application = middleware.Metrics(site)
    ask = partial(application, {"PATH_INFO": "/metrics"}, lambda *words: None)
    assert ask() == [str(os.getpid()).encode()]
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    assert ask() == [b"4711"]
