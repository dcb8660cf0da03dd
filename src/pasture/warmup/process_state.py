"""State of the process that application code may change, and its restoration.

Owns the list of aspects: handlers of signals, environment, working directory and so on. Reports
only names, never values: an environment holds secrets.
"""

from __future__ import annotations

import gc
import locale
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pasture.log_lines import first_of
from pasture.warmup.interrupts import handling_of, put_back

_SAFE_UMASK = 0o077
_MAX_VARIABLES = 5


@dataclass(frozen=True, slots=True)
class _Aspect:
    name: str  # name in the report
    read: Callable[[], Any]  # returns its value
    write: Callable[[Any], object]  # sets it
    of_main_thread: bool = False  # it can be set in the main thread only


def _read_umask() -> int:
    umask = os.umask(_SAFE_UMASK)  # reading it requires setting it
    os.umask(umask)
    return umask


def _read_wakeup_fd() -> int:
    number = signal.set_wakeup_fd(-1)
    if number != -1:
        try:
            signal.set_wakeup_fd(number)
        except (OSError, ValueError):
            pass  # closed meanwhile
    return number


_ASPECTS = (
    _Aspect("the working directory", os.getcwd, os.chdir),
    _Aspect("the umask", _read_umask, os.umask),
    _Aspect(
        "the locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda value: locale.setlocale(locale.LC_ALL, value),
    ),
    _Aspect(
        "the mask of signals",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda value: signal.pthread_sigmask(signal.SIG_SETMASK, value),
    ),
    _Aspect("the wake-up descriptor of signals", _read_wakeup_fd, signal.set_wakeup_fd, True),
    _Aspect(
        "the profiling timer",
        lambda: signal.getitimer(signal.ITIMER_PROF)[1],
        lambda value: signal.setitimer(signal.ITIMER_PROF, value, value),
    ),
    _Aspect(
        "the virtual timer",
        lambda: signal.getitimer(signal.ITIMER_VIRTUAL)[1],
        lambda value: signal.setitimer(signal.ITIMER_VIRTUAL, value, value),
    ),
    _Aspect("the threads' switch interval", sys.getswitchinterval, sys.setswitchinterval),
    _Aspect("automatic collection", gc.isenabled, lambda on: (gc.enable if on else gc.disable)()),
    _Aspect("the collector's thresholds", gc.get_threshold, lambda value: gc.set_threshold(*value)),
)


class ProcessState:
    """The state at one moment; only the main thread can set handlers of signals."""

    def __init__(self, *, in_main_thread: bool) -> None:
        self._aspects = [a for a in _ASPECTS if in_main_thread or not a.of_main_thread]
        self._values = [_value_of(aspect) for aspect in self._aspects]
        self._handlers = _handlers() if in_main_thread else {}
        unknown = [number for number, handler in self._handlers.items() if handler is None]
        self._of_c_code = {number: handling_of(number) for number in unknown}
        self._environment = dict(os.environ)

    def restore(self, kept: Mapping[str, str | None] | None = None) -> tuple[str, ...]:
        """Undo the changes, except of `kept` variables; returns them in words."""
        for name, value in (kept or {}).items():
            self._environment.pop(name, None)
            if value is not None:
                self._environment[name] = value
        return (*self._restore_handlers(), *self._restore_environment(), *self._restore_aspects())

    def _restore_handlers(self) -> Iterator[str]:
        now = _handlers() if self._handlers else {}
        for number, handler in self._handlers.items():
            if now.get(number) == handler:
                continue
            if handler is not None:
                signal.signal(number, handler)
            elif self._of_c_code[number].can_be_put_back:
                put_back(number, self._of_c_code[number])
            else:
                continue
            yield f"the handler of {signal_name(number)}"

    def _restore_environment(self) -> Iterator[str]:
        now, then = dict(os.environ), self._environment
        changed = [name for name in now.keys() | then.keys() if now.get(name) != then.get(name)]
        for name in changed:
            if name in then:
                os.environ[name] = then[name]
            else:
                del os.environ[name]
        lines = [f"the variable {name!a}" for name in sorted(changed)]
        yield from first_of(lines, _MAX_VARIABLES, "variables")

    def _restore_aspects(self) -> Iterator[str]:
        for aspect, then in zip(self._aspects, self._values, strict=True):
            if then is None or _value_of(aspect) == then:
                continue
            try:
                aspect.write(then)
            except (OSError, ValueError, locale.Error) as error:
                yield f"{aspect.name}, which cannot be put back ({error})"
            else:
                yield aspect.name


def _value_of(aspect: _Aspect) -> Any:
    """The value of an aspect; None if unknown, as for a removed working directory."""
    try:
        return aspect.read()
    except (OSError, ValueError, locale.Error):
        return None


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
