"""The settings of the built-in collector: the user's, and a policy's until a child starts.

Invariant: only thresholds that the user has set are remembered. A child gets those that were set
last before the fork.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, suppress

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pasture.sealing.policy import Policy

_thresholds: tuple[int, int, int] | None = None
_adapts = False


def remember_thresholds() -> None:
    """Remember the present thresholds."""
    global _thresholds
    try:
        native().end_adapting_thresholds()
    except UnsupportedInterpreter:
        pass
    _thresholds = gc.get_threshold()


def turn_on() -> None:
    """Collect automatically from now on, with the user's thresholds."""
    if _thresholds is not None:
        gc.set_threshold(*_thresholds)
    gc.enable()


def run_full_out_of_line() -> None:
    """Make full collections write to no surviving object from now on.

    If the process inherited nearly all of its heap frozen, full collections also run sooner, as
    long as they are cheap, and return free memory to the system. Does nothing where the extension
    does not know this interpreter's collector.
    """
    global _adapts
    try:
        extension = native()
    except UnsupportedInterpreter:
        return
    try:
        extension.watch_collections(True)
    except NotImplementedError:
        return
    if extension.forget_frozen():
        _adapts = extension.adapt_thresholds()
        extension.trim_after_collections(True)


def collect_between_requests() -> None:
    """Run a full collection if it is worth its cost. In a worker, after a response.

    Works only where the cost decides when full collections run: in a child of a sealed process with
    CPython's own thresholds.
    """
    if _adapts and native().full_collection_pays():
        native().collect(False)


@contextmanager
def paused() -> Iterator[None]:
    """Switch automatic collection off inside the block, and restore it after."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def running() -> Iterator[None]:
    """Switch automatic collection on inside the block, and restore it after."""
    enabled = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        if not enabled:
            gc.disable()


def begin_loading(policy: Policy) -> None:
    """Take the loading steps of a policy, before the application is imported."""
    remember_thresholds()
    if "gc-off" in policy.loading:
        gc.disable()
    if "huge-arenas" in policy.loading:
        with suppress(UnsupportedInterpreter):
            native().use_huge_arenas()
    if getattr(sys, "get_lazy_imports", str)() == "all":
        from pasture.warmup import lazy_imports  # few programs have them

        lazy_imports.begin()
