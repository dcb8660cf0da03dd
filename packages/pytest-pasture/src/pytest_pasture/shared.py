"""Fixtures of session scope that are set up once, before the seal, for all workers.

Their values lie in the memory that workers share. They are torn down where they were set up, once
no worker is left. Threads, connections, ports, programs and temporary files among them are found as
those of a module are, and the workers are plain ones.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

_F = TypeVar("_F")

_OF_A_WORKER = ("worker_id", "testrun_uid", "tmp_path_factory", "tmpdir_factory")
_OUTCOMES = (Exception, pytest.skip.Exception, pytest.fail.Exception)


def pasture_shared(function: _F) -> _F:
    """Mark the function of a fixture, below `pytest.fixture(scope="session")`.

    Raises:
        TypeError: it is no function: the mark is above `pytest.fixture`.
    """
    if not inspect.isfunction(function) or hasattr(function, "_pytestfixturefunction"):
        raise TypeError("pasture_shared belongs below pytest.fixture")
    function.pasture_shared = True  # type: ignore[attr-defined]
    return function


class Shared:
    """Those of one session."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.notes: list[str] = []
        self._named = frozenset(session.config.getini("pasture_shared"))

    def set_up(self) -> None:
        """In the mold. Where one fails, each worker sets up its own, and reports it."""
        wanted = list(self._wanted())
        if not wanted:
            return
        stack: dict[Any, Any] = self.session._setupstate.stack
        stack[self.session] = ([self.session.teardown], None)
        for item, definition in wanted:
            name = definition.argname
            try:
                with warnings.catch_warnings():  # no test runs yet
                    warnings.filterwarnings("ignore", "Calling request.getfixturevalue")
                    item._request.getfixturevalue(name)
                reason = self._of_a_worker()
            except _OUTCOMES as error:
                reason = f"{type(error).__name__}: {error}"
            finally:
                item._initrequest()  # as no fixture had been asked for
            if reason is not None:
                self.notes.append(f"nothing is shared: the fixture {name!r}: {reason}")
                self.tear_down()
                return

    def disown(self) -> None:
        """In a process that has not set them up: leave their end to the one that has."""
        stack: dict[Any, Any] = self.session._setupstate.stack
        if self.session in stack:
            stack[self.session] = ([self.session.teardown], None)
            for definition in _definitions(self.session):
                definition._finalizers.clear()

    def tear_down(self) -> None:
        """In the mold, at its end."""
        try:
            self.session._setupstate.teardown_exact(None)
        except BaseException as error:
            print(f"pasture: the end of a shared fixture: {error!r}", file=sys.stderr)

    def _wanted(self) -> Iterator[tuple[Any, Any]]:
        seen = set()
        for item in self.session.items:
            for name, found in _known(item).items():
                definition = found[-1]
                if definition not in seen and self._is_marked(name, definition):
                    reason = _reason_against(definition)
                    if reason is None:
                        yield item, definition
                    else:
                        self.notes.append(f"the fixture {name!r} is not shared: {reason}")
                seen.add(definition)

    def _is_marked(self, name: str, definition: Any) -> bool:
        return name in self._named or getattr(definition.func, "pasture_shared", False)

    def _of_a_worker(self) -> str | None:
        for definition in _definitions(self.session):
            if definition.argname in _OF_A_WORKER and definition.cached_result is not None:
                return f"it uses {definition.argname}, of which each worker has its own"
        return None


def _reason_against(definition: Any) -> str | None:
    if definition.scope != "session":
        return f"its scope is {definition.scope}"
    if definition.params is not None:
        return "it has parameters"
    function = definition.func
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "it is asynchronous"
    return None


def _definitions(session: pytest.Session) -> set[Any]:
    return {one for item in session.items for found in _known(item).values() for one in found}


def _known(item: pytest.Item) -> dict[str, Any]:
    """Definitions by name of an item's fixtures."""
    found: dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return found
