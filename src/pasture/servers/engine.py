"""The common part of all engines, from the import of an engine's module to its end.

An engine's module holds a class with its own part, and ends with `engine = ThatClass.switch_on()`.
Its import is the switch: from then on processes that the engine starts are sealed. `pasture run`
becomes `python -m` of this module: the engine's own command, in a process that must seal or end.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from traceback import walk_tb
from typing import Any, ClassVar, NoReturn, Self

from pasture.errors import MissingExtra, PastureError, UsageError, refused
from pasture.log_lines import log
from pasture.own_values import generators
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.engines import ENGINES
from pasture.serving import restart, starter
from pasture.serving.moved_import import announce_plain, moved_import
from pasture.serving.sealer import is_off, seal_before_forks, show_log
from pasture.serving.settings import ServerSettings, read_environment
from pasture.trust.untrusted_text import complain


@contextmanager
def installed(name: str) -> Iterator[None]:
    """Import an engine's package in the `with` block; raises MissingExtra where that fails."""
    try:
        yield
    except ImportError as error:
        row = ENGINES[name]
        bringing = f"'{row.installed_by}'" if "[" in row.installed_by else row.installed_by
        raise MissingExtra(
            f"{row.package} cannot be imported: {error}", hint=f"pip install {bringing}"
        ) from error


def _is_ours(error: BaseException) -> bool:
    """Whether pasture's code, or its import, has raised an error."""
    names = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    return "pasture" in [name for name in names if not name.startswith("importlib.")][-1]


class Engine:
    """An engine in this process.

    Attributes:
        name: of its row.
        works: its parent does the program's work between the forks, as in `Sealer`.
        loads_early: the application is imported before the engine starts.
        moves_import: `load` imports what each worker would import.
        forks: the workers are forked from this process.
        shows_log: its command writes pasture's log to stderr; False for one that has its own log.
        is_command: this process is the engine's own command, run by pasture.
    """

    name: ClassVar[str]
    works: ClassVar[bool] = False
    loads_early: ClassVar[bool] = False
    moves_import: ClassVar[bool] = False
    forks = True
    shows_log: ClassVar[bool] = True
    settings: ServerSettings

    def __init__(self) -> None:
        self.is_command = False
        self._began = False

    @classmethod
    def switch_on(cls) -> Self:
        """Seal what this engine starts; run its command if it is this process's program."""
        main = vars(sys.modules["__main__"])
        if cls.__module__ == "__main__":
            module = importlib.import_module(main["__spec__"].name)
            main["__spec__"] = ModuleSpec("__main__", None)  # multiprocessing would run it again
            sys.exit(module.engine.run())
        engine = cls()
        engine.switch()
        return engine

    def switch(self) -> None:
        """Seal what this engine starts, from now on."""
        if is_off():
            return
        try:
            self.settings = read_environment()
        except PastureError as error:
            self.end(error)
        if restart.why_plain is not None:
            show_log()
            announce_plain(restart.why_plain, self.settings)
            return
        if self.loads_early:
            begin_loading(self.settings.policy)
        self.install()

    def run(self, name: str = "", command: Callable[[], Any] | None = None) -> int:
        """Run the engine's command, which must seal or end; returns its exit code."""
        starter.take_name(name or self.name)
        if self.shows_log:
            show_log()
        self.is_command = True
        try:
            return int((command or self.command)() or 0)
        except PastureError as error:
            return complain(error)
        except (MemoryError, OSError, RuntimeError) as error:
            words = refused(error)
            if words is None or not _is_ours(error):
                raise
            return complain(words)

    @property
    def restarted(self) -> str:
        """The script that starts this module, for an engine that starts `sys.argv` again.

        It has its own folder, because Python puts a script's folder in front of the path.
        """
        return str(Path(__file__).parent / "restarted" / self.name)

    def before(self, owner: Any, method: str, what: Callable[[Any], object]) -> None:
        """Call `begin` before a method of the engine's, with `what` of its object."""
        theirs = getattr(owner, method)

        @functools.wraps(theirs)
        def begin_and_go_on(first: Any, *arguments: Any, **named: Any) -> Any:
            self.begin(what(first))
            return theirs(first, *arguments, **named)

        setattr(owner, method, begin_and_go_on)

    def begin(self, started: Any) -> None:
        """Watch the forks of the object that is about to start, the first in this process."""
        if self._began:
            return
        self._began = True
        try:
            if self.is_refused(started):
                return
            if not self.loads_early:
                begin_loading(self.settings.policy)
            moved = moved_import(self.settings, restart.again, is_asked_for=not self.moves_import)
            with generators.observed(), moved:
                self.load(started)
        except PastureError as error:
            self.end(error)
        if self.forks:
            seal_before_forks(self.settings, works=self.works)

    def is_refused(self, started: Any) -> bool:
        """Whether workers are not forked from a loaded parent; this is logged as a warning.

        Raises a PastureError instead if `pasture run` or the settings require a seal.
        """
        try:
            self.check(started)
        except PastureError as error:
            if self.is_command or self.settings.strict:
                raise
            log.warning("not sealed: %s", error)
            return True
        return False

    def refuse_reload(self) -> NoReturn:
        """Raise for an engine that restarts its workers at each change of a file."""
        raise UsageError(
            f"with --reload {self.name} restarts its workers at each change of a file: there is "
            "nothing to share",
            hint="leave --reload out, or leave pasture out",
        )

    # An engine's own part.

    def install(self) -> None:
        """Call `begin` when the engine starts, or do the engine's equivalent."""
        raise NotImplementedError

    def command(self) -> Any:
        """Run the engine's own command; returns its exit code, or None."""
        raise NotImplementedError

    def check(self, started: Any) -> None:
        """Raise a UsageError if the workers to start are not forked from this process."""

    def load(self, started: Any) -> None:
        """Import the workers' modules, before the seal. May raise a PastureError."""

    def end(self, error: PastureError) -> NoReturn:
        """End this program, which must be sealed and cannot be."""
        sys.exit(complain(error))
