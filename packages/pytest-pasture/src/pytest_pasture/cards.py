"""Cards of other plug-ins: one for each that asks or opens something before the fork.

A package with a card may ask which worker it is. The mold answers with the name of the first one,
and the card corrects the consequences in each worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple

import pytest

_Step = Callable[[pytest.Config], None]


def _nothing(config: pytest.Config) -> None: ...


class Card(NamedTuple):
    """One package.

    Attributes:
        before_fork: in the mold, before it is sealed; in a kept run, before its workers are forked.
        in_run: in a kept mold, once it has the options and the `config.workerinput` of a run.
        in_worker: once the worker has its own `config.workerinput`.
        after_test: in the process of a test, with --fork-each.
    """

    before_fork: _Step = _nothing
    in_run: _Step = _nothing
    in_worker: _Step = _nothing
    after_test: _Step = _nothing


def _name_coverage(config: pytest.Config) -> None:
    """Set the name of a worker's data; coverage itself takes another file after a fork."""
    controller = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if controller is not None:
        controller.nodeid = _input(config)["workerid"]


def _save_coverage(config: pytest.Config) -> None:
    """Save coverage to a file of this process; the controller combines all files."""
    controller = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if controller is not None:
        controller.cov.stop()
        controller.cov.save()


def _close_reruns(config: pytest.Config) -> None:
    """Close the connection to the controller's counts."""
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
    """Take the seed that the controller has drawn for this run."""
    for name in ("randomly_seed", "random_order_seed"):
        if name in _input(config):
            setattr(config.option, name, _input(config)[name])


_BASES_OF_SQLALCHEMY = ("sqla_plugin_base", "sqlalchemy.testing.plugin.plugin_base")
_PLUG_IN_OF_SQLALCHEMY = "sqla_pytestplugin"  # loaded from a file, under another name


def _close_databases(config: pytest.Config) -> None:
    """Close the databases of SQLAlchemy's own tests, and those of its dialects.

    The end of an engine deletes its database: none of the mold's may end in a worker.
    """
    if _base_of_sqlalchemy(config) is not None:
        testing: Any = sys.modules["sqlalchemy.testing"]
        for engine in list(testing.config.Config.all_dbs()):
            testing.asyncio._assume_async(engine.dispose)
        testing.asyncio._assume_async(testing.engines.testing_reaper.final_cleanup)


def _open_databases(config: pytest.Config) -> None:
    """Open this worker's databases. Tests were collected with the objects that hold the mold's."""
    if (plugin := _base_of_sqlalchemy(config)) is None:
        return
    testing: Any = sys.modules["sqlalchemy.testing"]
    known = testing.config.Config

    def renew() -> None:
        of_tests = {_kind_of_database(one): one for one in known._configs}
        current = testing.config._current
        known._configs = set()
        plugin._engine_uri(config.option, plugin.file_config)
        for one in known._configs:
            vars(of_tests[_kind_of_database(one)]).update(vars(one))
        known._configs = set(of_tests.values())
        known.set_as_current(current, testing)
        plugin._prep_testing_database(config.option, plugin.file_config)

    plugin.configure_follower(_input(config)["follower_ident"])
    testing.asyncio._assume_async(renew)


def _base_of_sqlalchemy(config: pytest.Config) -> Any:
    """The module with the databases; None if workers have none of their own."""
    if "follower_ident" not in _input(config):
        return None
    return next(filter(None, map(sys.modules.get, _BASES_OF_SQLALCHEMY)), None)


def _kind_of_database(config: Any) -> tuple[str, str]:
    """The part of a database's URL that workers have in common."""
    return config.name, str(config.db.url.set(database=""))


def _input(config: pytest.Config) -> Mapping[str, Any]:
    found: Mapping[str, Any] = config.workerinput  # type: ignore[attr-defined]
    return found


# pytest-benchmark and syrupy ask whether they are in a worker, not in which one.
CARDS: Mapping[str, Card] = {
    "pytest_benchmark": Card(),
    "pytest_cov": Card(in_worker=_name_coverage, after_test=_save_coverage),
    "pytest_randomly": Card(in_run=_take_seed),
    "pytest_rerunfailures": Card(before_fork=_close_reruns, in_worker=_open_reruns),
    "random_order": Card(in_run=_take_seed),
    "sqlalchemy": Card(before_fork=_close_databases, in_worker=_open_databases),
    "syrupy": Card(),
}


def asked_by(frame: FrameType) -> bool:
    """Whether a frame runs code of a package with a card."""
    loaded = sys.modules.get(_PLUG_IN_OF_SQLALCHEMY)
    if loaded is not None and frame.f_globals is vars(loaded):
        return True
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in CARDS


def take(step: str, config: pytest.Config) -> None:
    """Take a step, by its name, of all cards."""
    for card in CARDS.values():
        getattr(card, step)(config)
