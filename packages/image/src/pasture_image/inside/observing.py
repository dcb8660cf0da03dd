"""What modules ask their process for while they are loaded, besides variables of the environment.

A program finds what they have seen then, not what it would see itself. What the process was (its
directory, its number) and random bytes cannot be compared: a `Note` names the module. Owns finding
that out, by an audit hook and by functions that stand in for those of `os`; afterwards neither is
left in the process. Files are recorded by the kernel (`recording`).
"""

from __future__ import annotations

import _locale
import gettext
import locale
import os
import signal
import site
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from pasture.errors import ImageFailed
from pasture.observing import Audit, asker_besides
from pasture_image.inside import locales

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pasture_image.inside.notes import Note

_CONNECTORS = frozenset((__name__, "socket", "ssl", "asyncio", "asyncio.selector_events"))

_OF_LOCALE = (
    *((_locale, name) for name in ("setlocale", "nl_langinfo", "getencoding")),
    (locale, "getpreferredencoding"),
    (gettext, "find"),
    *((site, name) for name in ("getuserbase", "getusersitepackages")),
)
"""What gives away the locale of characters, which translations there are, where the user's packages
are. Other categories are C's until a program sets them."""
_OF_SIGNALS = ("getsignal", "signal", "pthread_sigmask")
_OWN = ("pasture", "pasture_image")

signals: set[int] = set()
"""Whose handlers modules have asked for or set; 0 for which signals are blocked."""

sets_locale = False
"""Whether modules have set the locale."""

_NO_HOOK = "what modules ask for cannot be noticed: another audit hook refuses one more"
_NO_HOOK_HINT = "add that hook in programs, not in a start file or a preloaded module"

occasion = ""
"""What is done now, for people: which module is loaded, or which request is served."""

connected: dict[int, str] = {}
"""By the inode of a connection: the module that opened it, and on which occasion."""

left: set[str] = set()
"""Paths of what the load has made and another load finds (`written`): it is to be loaded again."""

_notes: set[tuple[str, str]] = set()


def note(more: Iterable[tuple[str, str]]) -> None:
    """Others have found that."""
    _notes.update(more)


def notes() -> tuple[Note, ...]:
    """What programs get as it was when modules were loaded."""
    from pasture_image.inside.notes import Note

    return tuple(sorted(Note(*one) for one in _notes))


class Observed:
    """Observes inside a `with` block. One at a time."""

    def __init__(self, inherit: Callable[[], object]) -> None:
        """Prepare.

        Args:
            inherit: called before another program inherits the environment.
        """
        self._inherit = inherit
        self._audit = Audit(self._hear)
        self._events: dict[str, Callable[..., object]] = {
            "subprocess.Popen": self._program_started,
            **dict.fromkeys(("os.system", "os.fork", "os.forkpty"), lambda *_: inherit()),
            "socket.connect": self._connected,
        }
        self._stand_ins = [
            (getattr(module, name), self._locale_stand_in(module, name))
            for module, name in _OF_LOCALE
        ] + [(getattr(signal, name), self._signal_stand_in(name)) for name in _OF_SIGNALS]

    def __enter__(self) -> Observed:
        self._add_hook()
        for plain, stand_in in self._stand_ins:
            replace(plain, stand_in)
        return self

    def __exit__(self, *_: object) -> None:
        self._audit.drop()
        for plain, stand_in in self._stand_ins:
            replace(stand_in, plain)

    def _add_hook(self) -> None:
        try:
            is_there = self._audit.start_or_refuse()
        except Exception as error:  # of any kind: another hook has raised it
            raise ImageFailed(f"{_NO_HOOK}: {error!r}", hint=_NO_HOOK_HINT) from error
        if not is_there:
            raise ImageFailed(_NO_HOOK, hint=_NO_HOOK_HINT)

    # -- what the hook hears

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        work = self._events.get(event)
        if work is not None:
            work(*args)

    def _program_started(self, _path: object, _argv: object, _folder: object, env: object) -> None:
        if env is None:
            self._inherit()

    @staticmethod
    def _connected(socket: Any, _address: object) -> None:
        inode = os.fstat(socket.fileno()).st_ino
        connected[inode] = f"{asker_besides(_CONNECTORS)} {occasion}"

    @staticmethod
    def _locale_stand_in(module: ModuleType, name: str) -> Callable[..., Any]:
        plain = getattr(module, name)

        def stand_in(*args: Any, **options: Any) -> Any:
            global sets_locale
            sets_locale |= name == "setlocale" and args[1:2] not in ((), (None,))
            answer = plain(*args, **options)
            given = (*args, *options.values())
            try:
                locales.answers[plain, tuple(map(_kept, given))] = answer
            except TypeError:  # an argument that cannot be kept, and asked again
                sets_locale = True
            return answer

        return stand_in

    @staticmethod
    def _signal_stand_in(name: str) -> Callable[..., Any]:
        plain = getattr(signal, name)

        def stand_in(*args: Any, **options: Any) -> Any:
            found = plain(*args, **options)
            asker = str(sys._getframe(1).f_globals.get("__name__"))
            if asker.partition(".")[0] not in _OWN:
                is_of_one = name != "pthread_sigmask"
                signals.add(int((*args, *options.values())[0]) if is_of_one else 0)
            return found

        return stand_in


def _kept(argument: Any) -> object:
    """An argument as it can be asked again."""
    if isinstance(argument, list):
        return tuple(argument)
    return frozenset(argument) if isinstance(argument, set) else argument


def replace(one: object, other: object) -> None:
    """Put one function in the place of another in all modules: many hold those of others."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        for name, value in list(names.items()) if isinstance(names, dict) else ():
            if value is one:
                names[name] = other  # type: ignore[index]
