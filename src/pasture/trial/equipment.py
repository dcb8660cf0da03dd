"""Server program and load generator of a trial, besides the application.

Owns which of several is taken. The application's own packages come first. A server that it lacks
comes from an environment of pasture's own (`tools`). A locustfile needs Locust of the user's.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pasture.display.progress import OnEvent
from pasture.errors import MissingExtra
from pasture.trial import tools
from pasture.trial.plan import TrialPlan
from pasture.trial.server import Pause, features_of, require_module

LOCUST_HINT = (
    "pip install 'locust>=2.32' into the application's environment, or name an interpreter that "
    "has it with --load-python; a list of URLs (--url) needs neither"
)
_MIN_LOCUST = (2, 32)


@dataclass(frozen=True, slots=True)
class Equipment:
    """Server program and load generator of a trial."""

    # Folder of a server that the application's environment lacks; None if it has one.
    server: Path | None = None
    features: frozenset[str] = frozenset()  # what this server has, see `ServerFacts.features`
    locust: str | None = None  # the interpreter that has it; None without a locustfile


def find_equipment(plan: TrialPlan, emit: OnEvent, pause: Pause) -> Equipment:
    """Find what a plan needs; install a server that the application's environment lacks, apart.

    Raises:
        AppImportFailed: something is to be installed, and the application is not there.
        MissingExtra: it cannot be installed, or is not installed apart.
        UsageError: there is no place to keep it.
        KeyboardInterrupt: `pause` raised it.
    """
    locust = _find_locust(plan)
    server = None
    if not _has_server(plan):
        require_module(plan)  # nothing is installed for an application that is not there
        server = _server_apart(plan, emit, pause)
    return Equipment(server, features_of(plan, server), locust)


def _find_locust(plan: TrialPlan) -> str | None:
    if plan.locustfile is None:
        return None
    if plan.load_python is None and not _has_new_locust():
        least = ".".join(map(str, _MIN_LOCUST))
        raise MissingExtra(
            f"a locustfile needs Locust {least} or newer, which {sys.executable} does not have",
            hint=LOCUST_HINT,
        )
    return plan.load_python or sys.executable


def _has_server(plan: TrialPlan) -> bool:
    """Whether the application's environment has its server; the run says it of a foreign one."""
    return plan.server_python != sys.executable or find_spec(plan.facts.module) is not None


def _server_apart(plan: TrialPlan, emit: OnEvent, pause: Pause) -> Path:
    wanted = tools.SERVERS.get(plan.server)
    if wanted is None:
        raise MissingExtra(
            f"{plan.facts.module} is not installed in the application's environment",
            hint=f"pip install '{plan.facts.install}', or leave --server out",
        )
    return tools.find_or_make(wanted, emit, pause).packages


def bring_page_packages(emit: OnEvent, pause: Pause) -> None:
    """Make jinja2 and plotly importable in this process; raises as `find_equipment`."""
    if not tools.bring(tools.PAGE, emit, pause):
        raise MissingExtra("--html needs jinja2 and plotly", hint="pip install 'pasture[trial]'")


def _has_new_locust() -> bool:
    """Whether this interpreter has a Locust that will do. No import, since gevent patches."""
    try:
        found = re.match(r"(\d+)\.(\d+)", version("locust"))
    except PackageNotFoundError:
        return False
    return found is not None and tuple(map(int, found.groups())) >= _MIN_LOCUST
