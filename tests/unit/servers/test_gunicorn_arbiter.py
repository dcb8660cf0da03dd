"""What the plain start of gunicorn keeps of the earlier one."""

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

WHY = "the probe failed: GET /: hung"


def start_again(
    monkeypatch: pytest.MonkeyPatch, bind: str = "127.0.0.1:0", systemd: bool = False
) -> list[dict[str, Any]]:
    """The new starts that an arbiter with one listener asks for."""
    config = Config()
    config.set("bind", bind)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(restart, "is_possible", lambda: True)
    monkeypatch.setattr(restart, "again", lambda why, **options: asked.append(options))
    arbiter: Any = SimpleNamespace(
        cfg=config,
        systemd=systemd,
        master_pid=0,
        _lifespan=None,
        LISTENERS=[SimpleNamespace(fileno=lambda: 5)],
        START_CTX={"args": ["python", "/venv/gunicorn/__main__.py"], "cwd": "/srv"},
    )
    SealingArbiter.start_again(arbiter, WHY)
    return asked


def test_listeners_of_its_own_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (asked,) = start_again(monkeypatch)
    assert (asked["kept"], asked["environ"]["GUNICORN_FD"]) == ({5: 5}, "5")
    assert asked["directory"] == "/srv"


def test_the_program_is_started_as_it_was_and_not_as_a_file_of_gunicorns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (asked,) = start_again(monkeypatch)
    assert asked.get("arguments") is None


@pytest.mark.parametrize(
    ("bind", "systemd", "kept"),
    [("fd://7", False, {7: 5}), ("127.0.0.1:0", True, {3: 5}), ("fd://3", False, {3: 5})],
)
def test_listeners_that_were_open_before_gunicorn_have_their_numbers_again(
    monkeypatch: pytest.MonkeyPatch, bind: str, systemd: bool, kept: dict[int, int]
) -> None:
    (asked,) = start_again(monkeypatch, bind, systemd)
    assert asked["kept"] == kept and "GUNICORN_FD" not in asked["environ"]


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
    monkeypatch.setattr(restart, "why_plain", WHY)
    from pasture.servers import gunicorn

    arbiter = gunicorn.engine.make_arbiter(application)
    assert isinstance(arbiter, Arbiter) and not isinstance(arbiter, SealingArbiter)
    assert restart.VARIABLE not in application.cfg.env_orig
    assert not application.cfg.preload_app and restart.VARIABLE not in os.environ
