"""`PASTURE=seal` in the environment: the engine that this interpreter runs is sealed.

Called at the start of each interpreter whose environment has the variable. Owns the recognition of
a program's engine, from pasture's own table. Invariants: pasture is imported only after a module of
the engine; after any error the program goes on, unsealed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing it would bring `typing` into each interpreter
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

VARIABLE = "PASTURE"
OFF = ("", "0", "off", "false", "no")
ON = ("1", "on", "true", "yes")
"""Words for the usual policy, `seal`."""

NO_ENGINES = (
    "",
    "pasture",
    "pip",
    "ddtrace-run",
    "newrelic-admin",
    "opentelemetry-instrument",
)
"""Programs with their own seal, or without forks."""

_FORKSERVER = "multiprocessing.forkserver"
_FORK = "os.fork"
"""Replaces a module's name: the row of programs that fork by themselves."""
_SPAWNING = ("popen_spawn_posix", "popen_loky_posix")
"""Last names of modules that start processes, of multiprocessing and its descendants."""
_SPAWNED = (
    "not sealed: processes were spawned, which share nothing; PASTURE_FORK_SPAWNED=1 forks them"
)
_WITH_VALUE = "WX"
_LAST = "cm"


def start() -> None:
    """Wait for the engine of this program, if the environment says so."""
    import os

    policy = os.environ.get(VARIABLE, "")
    # As for Python's own variables: -E and -I leave them unread.
    if policy.strip().lower() in OFF or sys.flags.ignore_environment:
        return
    if policy.strip().lower() in ON:
        policy = "seal"
    program = program_of(sys.orig_argv)
    # A folder that is listed twice has its start files run twice.
    if may_be_engine(program) and not any(isinstance(one, _Watch) for one in sys.meta_path):
        sys.meta_path.insert(0, _Watch(program, policy))


def catch_up() -> None:
    """Switch on the engine if it was imported before `start`, as out of an image."""
    for one in sys.meta_path:
        if isinstance(one, _Watch):
            one.catch_up()


def read_engines() -> Mapping[str, Any]:
    """pasture's table of engines by their names, executed without an import of pasture.

    Empty while the folder with pasture is not on the path yet: some paths follow after start files.
    """
    package = _find("pasture")
    if package is None:
        return {}
    folders = [f"{folder}/servers" for folder in package.submodule_search_locations]
    loader = _find("engines", folders).loader
    table: dict[str, Any] = {"__name__": "pasture.servers.engines"}
    exec(loader.get_code("engines"), table)
    engines: Mapping[str, Any] = table["ENGINES"]
    return engines


def _find(name: str, path: Any = None, target: Any = None) -> Any:
    """The spec by which an import would load a module, or None."""
    for finder in sys.meta_path:
        # As an import does: old finders have `find_module` alone.
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec(name, path, target) if find_spec is not None else None
        if spec is not None:
            return spec
    return None


def program_of(command: Sequence[str]) -> tuple[str, str]:
    """The program of an interpreter's command line.

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
    """The program that flags in one word run, as `-um gunicorn`, or None."""
    for at, letter in enumerate(letters, 1):
        if letter in _LAST:
            return letter, letters[at:] or next(words, "")
        if letter in _WITH_VALUE:
            if not letters[at:]:
                next(words, None)
            return None
    return None


def may_be_engine(program: tuple[str, str]) -> bool:
    """Whether to watch what a program imports."""
    kind, what = program
    if kind == "c":
        return _FORKSERVER in what
    return _name_of(program) not in NO_ENGINES


def _name_of(program: tuple[str, str]) -> str:
    kind, what = program
    return what.partition(".")[0] if kind == "m" else what.rpartition("/")[2].removesuffix(".py")


def switches_of(program: tuple[str, str], engines: Mapping[str, Any]) -> dict[str, str]:
    """The modules to wait for in a program that may be an engine.

    Returns:
        dict of a module whose import says that an engine runs, to the module that seals it.
    """
    # The first of two rows with one module counts.
    every = {row.seen_by: row.module for row in reversed([*engines.values()]) if row.seen_by}
    if program[0] == "c":
        return {_FORKSERVER: every[_FORKSERVER]}
    row = engines.get(_name_of(program))
    if row is not None and row.is_program and row.seen_by:
        return {row.seen_by: every[row.seen_by]}
    return {seen: seals for seen, seals in every.items() if seen != _FORKSERVER}


class _Watch:
    """A finder that finds nothing by itself, and has a call follow the import of some modules."""

    def __init__(self, program: tuple[str, str], policy: str) -> None:
        self._left: dict[str, str] | None = None
        self._program = program
        self._policy = policy
        self._finding = False
        self._forking, self._forks_spawned = "", False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self._finding or (self._left is not None and name not in self._left):
            if not self._forks_spawned or not name.endswith(_SPAWNING):
                return None
            self._forks_spawned = False
            _switch_on(self._forking, self._policy)
            return None
        self._finding = True  # another finder may ask all of them
        try:
            if self._left is None:
                self._read()
            spec = _find(name, path, target) if self._left and name in self._left else None
        finally:
            self._finding = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._follow(spec.loader, name)
        return spec

    def catch_up(self) -> None:
        """Switch on the awaited modules that are imported already."""
        self._finding = True
        try:
            if self._left is None:
                self._read()
        finally:
            self._finding = False
        for name in [name for name in self._left or () if name in sys.modules]:
            assert self._left is not None
            _switch_on(self._left.pop(name), self._policy)

    def _read(self) -> None:
        try:
            if engines := read_engines():
                self._left = switches_of(self._program, engines)
                self._forking = self._left.pop(_FORK, "")
                if self._forking:
                    self._watch_processes()
        except Exception as error:
            self._left = {}
            _complain(error)

    def _watch_processes(self) -> None:
        """Switch on at the first fork of Python code, and report spawned processes at the end."""
        import atexit
        import os

        words = os.environ.get("PASTURE_FORK_SPAWNED", "").strip().lower()
        self._forks_spawned = words not in OFF
        fork, pid = os.fork, os.getpid()

        def switch_on_and_fork() -> int:
            if os.fork is switch_on_and_fork:
                os.fork = fork
                _switch_on(self._forking, self._policy)
            return fork()

        def complain() -> None:
            spawned = any(str(name).endswith(_SPAWNING) for name in sys.modules)
            if os.getpid() == pid and spawned and "pasture.serving.spawning" not in sys.modules:
                sys.stderr.write(f"pasture: {_SPAWNED}\n")

        switch_on_and_fork.__name__ = switch_on_and_fork.__qualname__ = "fork"
        os.fork = switch_on_and_fork
        atexit.register(complain)

    def _follow(self, loader: Any, name: str) -> None:
        execute = loader.exec_module

        def execute_and_switch_on(module: Any) -> None:
            execute(module)
            if module.__name__ == name and self._left and name in self._left:
                switch = self._left.pop(name)
                parent, _, last = name.rpartition(".")
                # As the import does next: it is not at its end yet.
                setattr(sys.modules[parent], last, module)
                _switch_on(switch, self._policy)

        try:
            loader.exec_module = execute_and_switch_on
        except (AttributeError, TypeError):  # a loader of another package's
            return


def _switch_on(module: str, policy: str) -> None:
    try:
        from pasture.serving.switch import switch_on

        switch_on(module, policy)
    except Exception as error:
        _complain(error)


def _complain(error: Exception) -> None:
    sys.stderr.write(f"pasture: not sealed: {type(error).__name__}: {error}\n")
