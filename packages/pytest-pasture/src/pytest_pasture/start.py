"""The start of a run with forked workers: when the mold is forked, and what rules it out.

The mold is forked once options are parsed and the first conftests imported, and before any plug-in
is configured: xdist's worker has a configuration of its own from there on, too. `plugin.py`
registers this module where a run wants it.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist import dsession

from pasture.fork_safety.survey import survey
from pytest_pasture import keep, mold, nodes, streams
from pytest_pasture.controller import Mold
from pytest_pasture.inputs import Inputs
from pytest_pasture.keeper import Keeper
from pytest_pasture.lookout import LookOut, findings_of
from pytest_pasture.report import Report

LOOKOUT = pytest.StashKey[LookOut]()
INHERITED = pytest.StashKey[list[int]]()
INPUTS = pytest.StashKey[Inputs]()
REPORT = pytest.StashKey[Report]()


def look_out(early_config: pytest.Config) -> None:
    """Note what the run makes and reads; before its first conftest is imported."""
    early_config.stash[LOOKOUT] = LookOut()
    early_config.stash[LOOKOUT].start()
    if early_config.known_args_namespace.pasture_keep:
        early_config.stash[INPUTS] = Inputs()
        early_config.stash[INPUTS].start()
        early_config.stash[INHERITED] = streams.inherited()


@pytest.hookimpl
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Fork the mold; after xdist has read its options, and before pytest runs the session."""
    if hasattr(config, "workerinput"):
        return None
    if config.option.pasture_keep_stop:
        return _stop(config)
    lookout = config.stash.get(LOOKOUT, None)
    if lookout is None:
        return None
    option: Any = config.option
    if (
        config.pluginmanager.hasplugin("xdist")
        and option.dist != "no"
        and option.tx
        and not (option.collectonly or getattr(option, "looponfail", False))
    ):
        report = config.stash[REPORT] = Report(config)
        config.pluginmanager.register(report, "pasture-report")
        reason = nodes.reason_against(config) or _hazard(config, lookout)
        if reason is None:
            keeper = None
            if (inputs := config.stash.get(INPUTS, None)) is not None:
                place, hello = keep.place_of(config), keep.hello_of(config)
                inherited = config.stash[INHERITED]
                keeper = Keeper(keep.limit_s(config), place, hello, inputs, inherited)
            report.mold = Mold(config, lookout, report.plain, keeper)
            config.stash[nodes.MOLD] = report.mold
            config.pluginmanager.register(nodes.Order(report.mold), "pasture-order")
            dsession.NodeManager = nodes.NodeManager
        else:
            report.plain(reason)
    _look_no_more(config)
    return None


def _stop(config: pytest.Config) -> int:
    try:
        number = keep.place_of(config).stop()
    except OSError as error:
        raise pytest.UsageError(f"--keep-stop: {error.strerror or error}") from None
    print(f"pasture: ended {number} kept process{'es' * (number != 1)}")
    return 0


def _look_no_more(config: pytest.Config) -> None:
    if (lookout := config.stash.get(LOOKOUT, None)) is not None:
        lookout.stop()
    if (inputs := config.stash.get(INPUTS, None)) is not None:
        inputs.stop()


def pytest_unconfigure(config: pytest.Config) -> None:
    _look_no_more(config)


def _hazard(config: pytest.Config, lookout: LookOut) -> str | None:
    """Why the mold cannot be forked from here."""
    allowed = config.getini("pasture_allow")
    findings = (*findings_of(survey()), *mold.processes(), *lookout.findings)
    return next((str(one) for one in findings if one.kind not in allowed), None)
