"""What the application's import has changed of the logging, kept through uvicorn's own set-up.

A spawned worker of uvicorn's sets logging up and then imports the application, which may change it.
A forked one has imported the application already, and sets up after that: files are opened anew,
as they should be after a rotation. Invariant: the later word is the application's in both.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _State:
    """Of one logger, what a configuration sets."""

    handlers: tuple[logging.Handler, ...]
    level: int
    propagate: bool
    disabled: bool


class LogSetup:
    """The loggers as they are now. Made before the application is imported."""

    def __init__(self) -> None:
        self._before = _states()
        self._changed: dict[str, _State] = {}

    def compare(self) -> None:
        """Note what has changed. Call it when the application has been imported."""
        now = _states()
        self._changed = {name: s for name, s in now.items() if s != self._before.get(name)}

    def put_back(self) -> None:
        """Make it so again, in a worker that has set logging up."""
        for name, state in self._changed.items():
            logger = _logger(name)
            logger.handlers[:] = state.handlers
            logger.setLevel(state.level)
            logger.propagate, logger.disabled = state.propagate, state.disabled


def _states() -> dict[str, _State]:
    named = (n for n, x in logging.root.manager.loggerDict.items() if isinstance(x, logging.Logger))
    return {name: _state(_logger(name)) for name in ("", *named)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(name) if name else logging.root


def _state(logger: logging.Logger) -> _State:
    return _State(tuple(logger.handlers), logger.level, logger.propagate, logger.disabled)
