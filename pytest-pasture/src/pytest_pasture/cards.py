"""What is known of other plug-ins: a card for each that asks or opens something before the fork.

A package with a card may ask which worker it is. The mold answers with the name of the first one,
and the card puts right in each worker what came of the answer.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

_Step = Callable[[pytest.Config], None]


def _nothing(config: pytest.Config) -> None: ...


@dataclass(frozen=True, slots=True)
class Card:
    """One package.

    Attributes:
        before_seal: in the mold.
        in_run: in a kept mold, once it has the options and the `config.workerinput` of a run.
        in_worker: once the worker has its own `config.workerinput`.
        after_test: in the process of a test that has one of its own.
        in_controller: in a controller out of a standby, before it is configured.
    """

    before_seal: _Step = _nothing
    in_run: _Step = _nothing
    in_worker: _Step = _nothing
    after_test: _Step = _nothing
    in_controller: _Step = _nothing


def _name_coverage(config: pytest.Config) -> None:
    """The name of a worker's data; coverage itself takes another file after a fork."""
    controller = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if controller is not None:
        controller.nodeid = _input(config)["workerid"]


def _save_coverage(config: pytest.Config) -> None:
    """In a file of this process, which the controller combines with the others."""
    controller = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if controller is not None:
        controller.cov.stop()
        controller.cov.save()


def _close_reruns(config: pytest.Config) -> None:
    """The connection to the counts that the controller keeps."""
    end = getattr(getattr(config, "failures_db", None), "sock", None)
    if end is not None:
        end.close()


def _open_reruns(config: pytest.Config) -> None:
    counts: Any = getattr(config, "failures_db", None)
    if hasattr(counts, "sock"):
        known = _input(config)
        words = [known[key] for key in ("sock_port", "statusdb_token") if key in known]
        config.failures_db = type(counts)(*words)  # type: ignore[attr-defined]


def _take_seed(config: pytest.Config) -> None:
    """Of this run, which the controller has drawn."""
    for name in ("randomly_seed", "random_order_seed"):
        if name in _input(config):
            setattr(config.option, name, _input(config)[name])


def _draw_seed(config: pytest.Config) -> None:
    """Anew, where the plug-in draws it when it is imported."""
    if hasattr(randomly := sys.modules.get("pytest_randomly"), "default_seed"):
        randomly.default_seed = random.Random().getrandbits(32)  # type: ignore[union-attr]


def _input(config: pytest.Config) -> Mapping[str, Any]:
    found: Mapping[str, Any] = config.workerinput  # type: ignore[attr-defined]
    return found


# pytest-benchmark and syrupy ask whether they are in a worker, not in which one.
CARDS: Mapping[str, Card] = {
    "pytest_benchmark": Card(),
    "pytest_cov": Card(in_worker=_name_coverage, after_test=_save_coverage),
    "pytest_randomly": Card(in_run=_take_seed, in_controller=_draw_seed),
    "pytest_rerunfailures": Card(before_seal=_close_reruns, in_worker=_open_reruns),
    "random_order": Card(in_run=_take_seed),
    "syrupy": Card(),
}


def asked_by(frame: FrameType) -> bool:
    """Whether code of a package with a card is what runs there."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in CARDS


def before_seal(config: pytest.Config) -> None:
    """Take the steps of all cards in the mold."""
    for card in CARDS.values():
        card.before_seal(config)


def in_run(config: pytest.Config) -> None:
    """Take the steps of all cards in the process of a run that a kept one serves."""
    for card in CARDS.values():
        card.in_run(config)


def in_worker(config: pytest.Config) -> None:
    """Take the steps of all cards in a worker."""
    for card in CARDS.values():
        card.in_worker(config)


def after_test(config: pytest.Config) -> None:
    """Take the steps of all cards at the end of a process that one test had for itself."""
    for card in CARDS.values():
        card.after_test(config)


def in_controller(config: pytest.Config) -> None:
    """Take the steps of all cards in a controller that a standby has forked."""
    for card in CARDS.values():
        card.in_controller(config)
