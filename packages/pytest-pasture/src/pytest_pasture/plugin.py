"""The plug-in of pytest: its options, and whether a run has more of it.

A run without forked workers imports nothing else of this package: it starts as without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import pytest


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
        "--keep",
        dest="pasture_keep",
        action="store_true",
        help="With -n: keep the collection for the next run with the same options",
    )
    group.addoption(
        "--keep-stop",
        dest="pasture_keep_stop",
        action="store_true",
        help="End the kept processes of this root folder, and run no test",
    )
    group.addoption(
        "--pasture-report",
        metavar="FILE",
        type=Path,
        help="Write times and memory of the workers to a JSON file",
    )
    parser.addini("pasture", "the same as --pasture", type="bool", default=False)
    parser.addini(
        "pasture_keep_minutes",
        "minutes without a run after which --keep ends the kept process",
        default="30",
    )
    parser.addini(
        "pasture_shared",
        "names of fixtures of session scope that are set up once, for all workers",
        type="args",
        default=[],
    )
    parser.addini(
        "pasture_services",
        "names of fixtures of session scope that start a service once, for all workers",
        type="args",
        default=[],
    )
    parser.addini(
        "pasture_allow",
        "kinds of findings that do not turn workers into plain ones",
        type="args",
        default=[],
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    options = early_config.known_args_namespace
    wanted = options.pasture
    if wanted is None:
        wanted = early_config.getini("pasture") or options.pasture_keep
    if wanted and _is_off(early_config):
        wanted = options.pasture_keep = False
    if wanted or options.pasture_keep_stop:
        from pytest_pasture import start

        early_config.pluginmanager.register(start, "pasture-start")
    if wanted:
        start.look_out(early_config)
    return (yield)


def _is_off(config: pytest.Config) -> bool:
    """Whether `PASTURE=off` is set; the controller says so, past the capture of output."""
    from pasture import off

    why = off.why()
    if why is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            sys.stderr.write(f"pasture: plain pytest-xdist: {why}\n")
    return why is not None
