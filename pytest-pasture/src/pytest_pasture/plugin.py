"""The plug-in of pytest: options, when the mold is forked, and what the terminal says.

The mold is forked once options are parsed and the first conftests imported, and before any plug-in
is configured: xdist's worker has a configuration of its own from there on, too.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist import dsession

from pasture.fork_safety.survey import survey
from pytest_pasture import mold, nodes
from pytest_pasture.controller import Mold
from pytest_pasture.once import Finding, LookOut
from pytest_pasture.report import Report

LOOKOUT = pytest.StashKey[LookOut]()
REPORT = pytest.StashKey[Report]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pasture", "workers that have collected already (pytest-pasture)")
    group.addoption(
        "--pasture",
        action="store_true",
        default=None,
        help="Fork the workers of pytest-xdist from one process that has collected and is sealed",
    )
    group.addoption("--no-pasture", dest="pasture", action="store_false", help="Plain pytest-xdist")
    group.addoption(
        "--fork-each",
        action="store_true",
        help="With --pasture: run each test in a process of its own, forked from its worker",
    )
    group.addoption(
        "--pasture-report",
        metavar="FILE",
        type=Path,
        help="Write times and memory of the workers to a JSON file",
    )
    parser.addini("pasture", "the same as --pasture", type="bool", default=False)
    parser.addini(
        "pasture_allow",
        "kinds of findings that are no reason for plain pytest-xdist",
        type="args",
        default=[],
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    wanted = early_config.known_args_namespace.pasture
    if early_config.getini("pasture") if wanted is None else wanted:
        early_config.stash[LOOKOUT] = LookOut()
        early_config.stash[LOOKOUT].start()
    return (yield)


@pytest.hookimpl
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Fork the mold; after xdist has read its options, and before pytest runs the session."""
    lookout = config.stash.get(LOOKOUT, None)
    if lookout is None or hasattr(config, "workerinput"):
        return
    if _is_distributed(config):
        report = config.stash[REPORT] = Report(config)
        config.pluginmanager.register(report, "pasture-report")
        reason = nodes.reason_against(config) or _hazard(config, lookout)
        if reason is None:
            config.stash[nodes.MOLD] = report.mold = Mold(config, lookout, report.plain)
            config.pluginmanager.register(nodes.Order(), "pasture-order")
            dsession.NodeManager = nodes.NodeManager
        else:
            report.plain(reason)
    lookout.stop()


def pytest_unconfigure(config: pytest.Config) -> None:
    if (lookout := config.stash.get(LOOKOUT, None)) is not None:
        lookout.stop()


def _is_distributed(config: pytest.Config) -> bool:
    option: Any = config.option
    return (
        config.pluginmanager.hasplugin("xdist")
        and option.dist != "no"
        and bool(option.tx)
        and not option.collectonly
        and not getattr(option, "looponfail", False)
        and sys.platform == "linux"
    )


def _hazard(config: pytest.Config, lookout: LookOut) -> str | None:
    """Why the mold cannot be forked from here."""
    hazards = (Finding(hazard.kind, str(hazard)) for hazard in survey())
    allowed = config.getini("pasture_allow")
    findings = (*hazards, *mold.processes(), *lookout.findings)
    return next((str(one) for one in findings if one.kind not in allowed), None)
