"""Load generator and server program of a trial, besides the application.

Owns which of several is taken. The application's own packages come first; what it lacks comes from
environments of pasture's own (`tools`).
"""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pasture.display.progress import OnEvent
from pasture.errors import MissingExtra
from pasture.trial import tools
from pasture.trial.plan import TrialPlan
from pasture.trial.server import Pause, features_of, require_module

_MIN_LOCUST = (2, 32)


@dataclass(frozen=True, slots=True)
class Equipment:
    """Load generator and server program of a trial."""

    locust: tuple[str, ...]  # the interpreter that has the load generator, with its options
    # Folders where a locustfile finds more modules, after the load generator's own.
    behind: tuple[str, ...] = ()
    # The load generator has an environment of its own, and so takes none of the variables of ours
    # that are for an interpreter.
    isolated: bool = False
    # Folder of a server that the application's environment lacks; None if it has one.
    server: Path | None = None
    features: frozenset[str] = frozenset()  # what this server has, see `ServerFacts.features`


def find_equipment(plan: TrialPlan, emit: OnEvent, pause: Pause) -> Equipment:
    """Find what a plan needs; install what the application's environment does not have, apart.

    Raises:
        AppImportFailed: something is to be installed, and the application is not there.
        MissingExtra: it cannot be installed, or is not installed apart.
        UsageError: there is no place to keep it.
        KeyboardInterrupt: `pause` raised it.
    """
    has_load = plan.load_python is not None or _has_new_locust()
    if not has_load or not _has_server(plan):
        require_module(plan)  # nothing is installed for an application that is not there
    server = None if _has_server(plan) else _server_apart(plan, emit, pause)
    features = features_of(plan, server)
    if has_load:
        python = plan.load_python or sys.executable
        return Equipment((python,), (), False, server, features)
    made = tools.find_or_make(tools.LOAD, emit, pause)
    # Nothing in the working directory takes the place of a module that Locust needs.
    return Equipment((made.python, "-P"), _own_path(), True, server, features)


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
    """Whether this interpreter has a Locust that will do: the extra `trial` is installed."""
    if not tools.LOAD.are_here:
        return False
    try:
        found = re.match(r"(\d+)\.(\d+)", version("locust"))
    except PackageNotFoundError:
        return False
    return found is not None and tuple(map(int, found.groups())) >= _MIN_LOCUST


def _own_path() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    library = {paths["stdlib"], paths["platstdlib"], str(Path(paths["platstdlib"], "lib-dynload"))}
    return tuple(p for p in sys.path if p and p not in library and not p.endswith(".zip"))
