"""The image of a trial: built once, for policies whose servers start out of one.

Owns the command line of `pasture image build`, which is run in the server's environment: the
distribution that brings it is none of the application's. The file is the user's alone and goes with
the trial, so it may hold all variables of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pasture.display.progress import Moved, OnEvent
from pasture.errors import ServerFailed, see
from pasture.launch.session import Group, tail
from pasture.trial.plan import TrialPlan
from pasture.trial.server import Pause, RunFiles, write_warm_up
from pasture.warmup.requests import Request

_POLL_S = 0.05
_SAID_LINES = 12
_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
_NAME = re.compile(r"[\w.]+(:[A-Za-z_]\w*)?")
"""An application that is no call of a factory."""


def path_of(files: RunFiles) -> Path:
    """Where the image will be."""
    return files.directory / "app.img"


def build(
    plan: TrialPlan,
    files: RunFiles,
    variables: Mapping[str, str],
    warm: Sequence[Request],
    emit: OnEvent,
    pause: Pause,
) -> None:
    """Load the application, have it serve the warm-up, and keep it in a file.

    Args:
        files: of the build alone.
        variables: of the server.

    Raises:
        ServerFailed: there is no image; the hint says why.
    """
    write_warm_up(files, warm, plan.headers)
    emit(Moved(phase="building the image"))
    command = _command(plan, files, variables, bool(warm))
    with Group(command, log=files.log, env=variables, cwd=plan.chdir) as group:
        while (code := group.exit_code()) is None:
            pause(_POLL_S)
        if code != 0:
            why = "".join(f": {said}" for said in _ERROR.findall(group.log)[-1:])
            raise ServerFailed(
                f"no image of {plan.app} can be built{why}",
                hint=f"some things an image cannot hold{see('image')}; the output ends with\n"
                + tail(group.log, _SAID_LINES),
            )


def _command(
    plan: TrialPlan, files: RunFiles, variables: Mapping[str, str], is_warmed: bool
) -> list[str]:
    modules = (*plan.facts.preload, re.split(r"[:(]", plan.app, maxsplit=1)[0])
    command = [plan.server_python, "-m", "pasture", "image", "build", "-o", str(path_of(files))]
    command += ["--preload", ",".join(modules)]
    for name in variables:
        command += ["--env", name]
    if is_warmed and _NAME.fullmatch(plan.app):
        command += ["--warm-file", str(files.warm)]
        command += ["--app", plan.app]
    return command
