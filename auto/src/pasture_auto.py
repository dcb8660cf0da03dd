"""`PASTURE=seal` in the environment: the engine that this interpreter runs is sealed.

Called at the start of each interpreter whose environment has the variable. Owns which engine a
program is, and when it is there. Invariants: nothing of pasture is imported before a module of the
engine is; whatever goes wrong, the program goes on, unsealed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing it would bring `typing` into each interpreter
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

VARIABLE = "PASTURE"
OFF = ("", "0", "off")

ENGINES: Mapping[str, str] = {
    "gunicorn.app.base": "pasture.servers.gunicorn",
    "uvicorn.main": "pasture.servers.uvicorn",
    "hypercorn.run": "pasture.servers.hypercorn",
    "granian.server.mp": "pasture.servers.granian",
    "celery.apps.worker": "pasture.servers.celery",
    "rq.worker": "pasture.servers.rq",
    "dramatiq.cli": "pasture.servers.dramatiq",
    "huey.consumer": "pasture.servers.huey",
    "multiprocessing.popen_fork": "pasture.servers.process_start",
    "multiprocessing.forkserver": "pasture.servers.forkserver",
}
"""What switches an engine's seal on, by the module whose import says that the engine runs."""

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "gunicorn": ("gunicorn.app.base",),
    "uvicorn": ("uvicorn.main",),
    "fastapi": ("uvicorn.main",),
    "hypercorn": ("hypercorn.run",),
    "granian": ("granian.server.mp",),
    "celery": ("celery.apps.worker",),
    "rq": ("rq.worker",),
    "dramatiq": ("dramatiq.cli",),
    "huey_consumer": ("huey.consumer",),
    # These have a seal of their own, or fork nothing.
    "pasture": (),
    "pip": (),
    "ddtrace-run": (),
    "newrelic-admin": (),
    "opentelemetry-instrument": (),
}
"""Modules to wait for, by the name of the program; any other program may be any engine."""

_FORKSERVER = "multiprocessing.forkserver"
_WITH_VALUE = "WX"
_LAST = "cm"


def start() -> None:
    """Wait for the engine of this program, if the environment says so."""
    import os

    policy = os.environ.get(VARIABLE, "")
    # As for Python's own variables: -E and -I leave them unread.
    if policy.lower() in OFF or sys.flags.ignore_environment:
        return
    modules = modules_of(program_of(sys.orig_argv))
    # A folder that is listed twice has its start files run twice.
    if modules and not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch(modules, policy))


def program_of(command: Sequence[str]) -> tuple[str, str]:
    """What an interpreter's command line runs.

    Args:
        command: as `sys.orig_argv`.

    Returns:
        "m", "c" or "" for a script, and the module, the code or the path; two empty strings if it
        runs none of them.
    """
    words = iter(command[1:])
    for word in words:
        if word == "-" or not word.startswith("-"):
            return "", word
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, None)
            continue
        found = _in_flags(word[1:], words)
        if found is not None:
            return found
    return "", ""


def _in_flags(letters: str, words: Iterator[str]) -> tuple[str, str] | None:
    """What flags in one word say to run, as `-um gunicorn` does; None if they say nothing."""
    for at, letter in enumerate(letters, 1):
        if letter in _LAST:
            return letter, letters[at:] or next(words, "")
        if letter in _WITH_VALUE:
            if not letters[at:]:
                next(words, None)
            return None
    return None


def modules_of(program: tuple[str, str]) -> tuple[str, ...]:
    """The modules whose import in that program says that an engine runs."""
    kind, what = program
    if kind == "c":
        return (_FORKSERVER,) if _FORKSERVER in what else ()
    if kind == "m":
        name = what.partition(".")[0]
    else:
        name = what.rpartition("/")[2].removesuffix(".py")
    if not name:
        return ()
    return PROGRAMS.get(name, tuple(module for module in ENGINES if module != _FORKSERVER))


class _Watch:
    """A finder that finds nothing by itself, and has a call follow the import of some modules."""

    def __init__(self, modules: Sequence[str], policy: str) -> None:
        self._left = set(modules)
        self._policy = policy
        self._finding = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._left or self._finding:
            return None
        self._finding = True  # another finder may ask all of them
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self._finding = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._follow(spec.loader, name)
        return spec

    def _follow(self, loader: Any, name: str) -> None:
        execute = loader.exec_module

        def execute_and_switch_on(module: Any) -> None:
            execute(module)
            if module.__name__ == name and name in self._left:
                self._left.discard(name)
                parent, _, last = name.rpartition(".")
                # As the import does next: it is not at its end yet.
                setattr(sys.modules[parent], last, module)
                _switch_on(ENGINES[name], self._policy)

        try:
            loader.exec_module = execute_and_switch_on
        except (AttributeError, TypeError):  # a loader of somebody else's
            return


def _switch_on(module: str, policy: str) -> None:
    try:
        from pasture.servers.switch import switch_on

        switch_on(module, policy)
    except Exception as error:
        sys.stderr.write(f"pasture: not sealed: {type(error).__name__}: {error}\n")
