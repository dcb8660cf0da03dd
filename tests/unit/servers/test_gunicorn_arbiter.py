"""Which gunicorns a failed probe restarts, and what the next start keeps of the earlier one."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("gunicorn")

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config

from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.serving import restart
from pasture.serving.restart import LeftOut

LEFT_OUT = LeftOut("warm-up", "GET /: hung", {})


def start_again(
    monkeypatch: pytest.MonkeyPatch, bind: str = "127.0.0.1:0", systemd: bool = False
) -> list[dict[str, Any]]:
    """The new starts that an arbiter with one listener asks for."""
    config = Config()
    config.set("bind", bind)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(restart, "is_possible", lambda: True)
    monkeypatch.setattr(restart, "again", lambda left_out, **options: asked.append(options))
    arbiter: Any = SimpleNamespace(
        cfg=config,
        systemd=systemd,
        master_pid=0,
        _lifespan=None,
        LISTENERS=[SimpleNamespace(fileno=lambda: 5)],
        START_CTX={"args": ["python", "/venv/gunicorn/__main__.py"], "cwd": "/srv"},
    )
    SealingArbiter._start_again(arbiter, LEFT_OUT)
    return asked


def test_listeners_of_its_own_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (asked,) = start_again(monkeypatch)
    assert (asked["kept"], asked["environ"]["GUNICORN_FD"]) == ([5], "5")
    assert asked["directory"] == "/srv"


def test_the_program_is_started_as_it_was_and_not_as_a_file_of_gunicorns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (asked,) = start_again(monkeypatch)
    assert asked.get("arguments") is None


def test_listeners_that_were_open_before_gunicorn_started_allow_no_new_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert start_again(monkeypatch, bind="fd://3") == []
    assert start_again(monkeypatch, systemd=True) == []


class Application(BaseApplication):  # type: ignore[misc]
    """One that may not be loaded."""

    def load_config(self) -> None:
        pass

    def load(self) -> None:
        raise AssertionError


def test_a_start_without_pasture_preloads_nothing_and_an_upgrade_has_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(restart.VARIABLE, "{}")
    application = Application()
    monkeypatch.delenv(restart.VARIABLE)
    application.cfg.set("preload_app", True)
    monkeypatch.setattr(restart, "earlier", LeftOut("pasture", "GET /: hung", {}))
    from pasture.servers import gunicorn

    arbiter = gunicorn.engine.make_arbiter(application)
    assert isinstance(arbiter, Arbiter) and not isinstance(arbiter, SealingArbiter)
    assert restart.VARIABLE not in application.cfg.env_orig
    assert not application.cfg.preload_app and restart.VARIABLE not in os.environ
