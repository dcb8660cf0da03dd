"""Packages that a trial needs and the application does not: each set in an environment of its own.

Owns making and finding them. An environment is made next to its name, tried, and moved there in one
step, so it is there whole or not at all. One that does not work any more is made again. The
application's own environment is never written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pasture.display.progress import Finished, OnEvent, Started
from pasture.errors import MissingExtra, ServerFailed
from pasture.launch.session import Group, environment, guarded, tail
from pasture.trial.server import Pause
from pasture.trust import private_files, user_cache
from pasture.trust.locks import locked

_TRY_S = 120.0
_INSTALL_S = 900.0
_POLL_S = 0.05
_PART = ".making"
_LOG = "log"
_INSTALL = ("install", "--quiet", "--no-input", "--disable-pip-version-check")
_SAID_LINES = 6
_NOT_IMPORTABLE = "what it installed cannot be imported"
_NOT_FOR_INSTALLERS = ("PYTHON", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")


@dataclass(frozen=True, slots=True)
class Tools:
    """A set of packages."""

    name: str  # of the environment
    what: str  # is installed, for a person
    requirements: tuple[str, ...]  # as pip takes them; the extra has the same
    modules: tuple[str, ...]  # import names, to see whether an environment works
    instead: str = ""  # what else a user can do, for the hint
    extra: str = "trial"  # of pasture, that has them

    @property
    def are_here(self) -> bool:
        """Whether this interpreter has them; found without an import."""
        return all(find_spec(module) is not None for module in self.modules)


SERVERS: Mapping[str, Tools] = {
    "gunicorn": Tools("server", "gunicorn", ("gunicorn>=23",), ("gunicorn",))
}
"""By the server's name: those that work from a folder apart."""
PAGE = Tools(
    "page",
    "what draws the page of --html",
    ("jinja2>=3.1", "plotly>=6.0"),
    ("jinja2", "plotly"),
    instead=", or leave --html out",
)
NUMBERS = Tools("numbers", "numpy", ("numpy>=1.26",), ("numpy",), extra="explain")
"""`pasture explain` counts with it."""


@dataclass(frozen=True, slots=True)
class ToolEnvironment:
    """An environment that was made here."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter, of the same build as this one."""
        return str(self.folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        """The folder of its packages."""
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder)}))


@dataclass(frozen=True, slots=True)
class _Installer:
    """uv, or a pip that is not the application's to change."""

    name: str
    program: tuple[str, ...]

    def commands(self, folder: Path, wanted: Sequence[str]) -> list[list[str]]:
        """What makes an environment in a folder and installs packages there."""
        python = f"{folder}/bin/python"
        if self.name == "uv":
            return [
                [*self.program, "venv", "--quiet", "--python", sys.executable, str(folder)],
                [*self.program, "pip", "install", "--quiet", "--python", python, *wanted],
            ]
        return [
            [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)],
            [*self.program, "--python", python, *_INSTALL, *wanted],
        ]


def bring(tools: Tools, emit: OnEvent, pause: Pause) -> bool:
    """Make packages importable here, from an environment apart if need be; whether they are now."""
    if not tools.are_here:
        sys.path.append(str(find_or_make(tools, emit, pause).packages))
    return tools.are_here


def find_or_make(tools: Tools, emit: OnEvent, pause: Pause) -> ToolEnvironment:
    """The environment of some tools; installed by uv or pip if there is none that works.

    Args:
        pause: sleeps for the given seconds; raises to interrupt, and nothing half made is left.

    Raises:
        MissingExtra: they cannot be installed.
        UsageError: there is no place to keep them.
    """
    cache = user_cache.folder("trial")
    made = ToolEnvironment(cache / f"{tools.name}-{_key(tools)}")
    try:
        with locked(cache, _saying_why(tools, emit, pause)) as alone:
            if alone:
                for left in cache.glob(f".*{_PART}"):  # of trials killed together with their guards
                    shutil.rmtree(left, ignore_errors=True)
            if not _works(tools, made, pause):
                installer = _installer(tools)
                words = f"installing {tools.what} with {installer.name}, once, into {made.folder}"
                emit(Started(tools.name, None, words))
                _make(tools, installer, made, pause)
                emit(Finished(tools.name))
    except OSError as error:
        raise user_cache.refused(cache, error) from None
    return made


def _saying_why(tools: Tools, emit: OnEvent, pause: Pause) -> Pause:
    """As `pause`, and says once why there is something to wait for."""
    reasons = iter(("waiting for another trial, which is installing",))

    def wait(seconds: float) -> None:
        for reason in reasons:
            emit(Finished(tools.name, reason))
        pause(seconds)

    return wait


def _key(tools: Tools) -> str:
    """A name for tools and interpreter: other ones cannot stand in for them."""
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    parts = (version("pasture"), *tools.requirements, base, sys.version, platform.machine())
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _works(tools: Tools, made: ToolEnvironment, pause: Pause) -> bool:
    if not made.folder.is_dir():
        return False
    private_files.make_folder(made.folder)  # refuses one that another user has a say in
    program = [made.python, "-I", "-c", f"import {', '.join(tools.modules)}"]
    with private_files.temporary_folder("pasture-tools-") as place, guarded(place):
        try:
            # Too slow is not broken: another trial may be using it.
            return _run(program, place, pause, _TRY_S) in (0, None)
        except ServerFailed:  # it cannot be executed
            return False


def _make(tools: Tools, installer: _Installer, made: ToolEnvironment, pause: Pause) -> None:
    part = _beside(made.folder)
    with contextlib.ExitStack() as left, guarded(part):
        left.callback(shutil.rmtree, part, ignore_errors=True)
        said = _install(installer.commands(part, tools.requirements), pause)
        if said or not _works(tools, ToolEnvironment(part), pause):
            raise _not_installed(tools, installer.name, said or _NOT_IMPORTABLE)
        _move(part, made.folder)


def _installer(tools: Tools) -> _Installer:
    """uv where it is on the PATH, else pip."""
    if (uv := shutil.which("uv")) is not None:
        return _Installer("uv", (uv,))
    if find_spec("pip") is not None:
        return _Installer("pip", (sys.executable, "-I", "-m", "pip"))
    if (pip := shutil.which("pip")) is not None:
        return _Installer("pip", (pip,))
    raise _not_installed(tools, "", "")


def _install(commands: Sequence[Sequence[str]], pause: Pause) -> str:
    """Run an installer; what it printed if it failed, "" if it did not."""
    with private_files.temporary_folder("pasture-tools-") as place, guarded(place):
        try:
            for command in commands:
                if _run(command, place, pause, _INSTALL_S) != 0:
                    said = (place / _LOG).read_text(encoding="utf-8", errors="replace")
                    return said or f"{command[0]} said nothing"
        except ServerFailed as error:  # it cannot be executed
            return error.message
    return ""


def _run(command: Sequence[str], folder: Path, pause: Pause, limit_s: float) -> int | None:
    """Run a program in a folder of no project, to take no settings; None if it took too long."""
    variables = environment({"PIP_USER": "0", "PWD": str(folder)}, without=_NOT_FOR_INSTALLERS)
    end = time.monotonic() + limit_s
    with Group(command, log=folder / _LOG, env=variables, cwd=folder) as running:
        while running.exit_code() is None and time.monotonic() < end:
            pause(_POLL_S)
        code = running.exit_code()
    pause(0)  # an interrupt from the keyboard ends a program, too: that says nothing about it
    return code


def _beside(folder: Path) -> Path:
    part = folder.with_name(f".{folder.name}.{os.getpid()}-{os.urandom(4).hex()}{_PART}")
    private_files.make_folder(part)
    return part


def _move(part: Path, folder: Path) -> None:
    """Put an environment in its place; one that does not work goes."""
    old = _beside(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, old)  # noqa: PTH104
    try:
        os.rename(part, folder)  # noqa: PTH104
    except OSError:
        if not folder.is_dir():  # else another trial was faster, on a file system without locks
            raise
    shutil.rmtree(old, ignore_errors=True)


def _not_installed(tools: Tools, installer: str, said: str) -> MissingExtra:
    by_hand = (
        f"pip install 'pasture[{tools.extra}]' into the application's environment{tools.instead}"
    )
    if not installer:
        return MissingExtra(
            f"{tools.what}: there is neither uv nor pip to install it",
            hint=f"put uv on the PATH, or {by_hand}",
        )
    return MissingExtra(
        f"{tools.what} could not be installed",
        hint=f"it takes a package index, once: check the settings of {installer}; or {by_hand}; "
        f"if the disk is full, {user_cache.HINT}; the output of {installer} ends with\n"
        + tail(said, _SAID_LINES),
    )
