"""Fixtures of session scope that are set up once, before the seal, for all workers.

Their values lie in the memory that workers share. They are torn down where they were set up, once
no worker is left. Threads and connections among them are found as those of a module are, and the
workers are plain ones. So are ports, programs and temporary files, except a service's.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pytest_pasture.lookout import LookOut

_F = TypeVar("_F")

_OF_A_WORKER = ("worker_id", "testrun_uid")
_FOLDERS = ("tmp_path_factory", "tmpdir_factory")
_OUTCOMES = (Exception, pytest.skip.Exception, pytest.fail.Exception)


def pasture_shared(function: _F) -> _F:
    """Mark the function of a fixture, below `pytest.fixture(scope="session")`.

    Raises:
        TypeError: it is not a function: the mark is above `pytest.fixture`.
    """
    return _marked(function, "pasture_shared")


def pasture_service(function: _F) -> _F:
    """Mark the function of a fixture that starts a service for all workers, as `pasture_shared`.

    Programs that it starts, ports and temporary files are meant to be shared. A worker cannot use
    a `subprocess.Popen` of it: let the fixture's value be an address, for instance.

    Raises:
        TypeError: it is not a function: the mark is above `pytest.fixture`.
    """
    return _marked(function, "pasture_services")


def _marked(function: _F, kind: str) -> _F:
    if not inspect.isfunction(function) or hasattr(function, "_pytestfixturefunction"):
        raise TypeError("pasture_shared and pasture_service belong below pytest.fixture")
    function.pasture_shared = kind  # type: ignore[attr-defined]
    return function


class Shared:
    """The shared fixtures of a session."""

    def __init__(self, session: pytest.Session, lookout: LookOut, is_kept: bool) -> None:
        self.session = session
        self.lookout = lookout
        self.is_kept = is_kept
        self.notes: list[str] = []
        self._named = {
            name: kind
            for kind in ("pasture_shared", "pasture_services")
            for name in session.config.getini(kind)
        }

    def set_up(self, begin: Callable[[], None]) -> None:
        """In the mold. Where one fails, each worker sets up its own, and reports it.

        Args:
            begin: called before the first one.
        """
        wanted = list(self._wanted())
        if not wanted:
            return
        begin()
        stack: dict[Any, Any] = self.session._setupstate.stack
        stack[self.session] = ([self.session.teardown], None)
        for item, definition in wanted:
            name = definition.argname
            is_service = self._kind(name, definition) == "pasture_services"
            own = set(_OF_A_WORKER if is_service and not self.is_kept else _OF_A_WORKER + _FOLDERS)
            own -= self._used()
            try:
                with (
                    warnings.catch_warnings(),  # no test runs yet
                    self.lookout.of_a_service() if is_service else nullcontext(),
                    _captured(self.session.config),
                ):
                    warnings.filterwarnings("ignore", "Calling request.getfixturevalue")
                    item._request.getfixturevalue(name)
                used = sorted(own & self._used())
                reason = f"it uses {used[0]}, which differs between workers" if used else None
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
                if definition not in seen and self._kind(name, definition):
                    reason = _reason_against(definition)
                    if reason is None:
                        yield item, definition
                    else:
                        self.notes.append(f"the fixture {name!r} is not shared: {reason}")
                seen.add(definition)

    def _kind(self, name: str, definition: Any) -> str | None:
        """The setting that it could be named in."""
        return self._named.get(name) or getattr(definition.func, "pasture_shared", None)

    def _used(self) -> set[str]:
        """Names of fixtures that are set up."""
        found = _definitions(self.session)
        return {one.argname for one in found if one.cached_result is not None}


@contextmanager
def _captured(config: pytest.Config) -> Iterator[None]:
    """Capture output as for a test's fixtures. A service holds no stream of the run open."""
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    if manager is None:
        yield
        return
    manager.resume_global_capture()
    try:
        yield
    finally:
        manager.suspend_global_capture(in_=True)
        manager.read_global_capture()


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
