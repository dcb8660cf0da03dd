"""Full garbage collections that write to no surviving object. The extension does the work. This
module owns the moment: on request, always (`install`), or between requests. Young collections stay
CPython's own. docs/collector.md says what changes for users; docs/internals/collector.md says how
it works.
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import current, native

current()  # checks the interpreter's layout before any fork rather than after each


@dataclass(frozen=True, slots=True)
class History:
    """The work of the out-of-line collector in this process, and before the fork in its parent."""

    collections: int  # number of full collections run out of line
    skipped: int  # number left to the built-in collector because working memory was missing
    declined: int  # number left to the built-in collector because of other interpreters
    # Whether the last one started with a walk from the known roots. It does not where most of the
    # heap is frozen.
    from_roots: bool
    objects: int  # number that the last one examined
    remainder: int  # number of these that the known roots did not lead to
    garbage: int  # number of these that were dead
    scratch_bytes: int  # working memory that the last one mapped and gave back
    nanoseconds: int  # time that the last one took to find the garbage


def collect(*, frozen: bool = False) -> int:
    """Run a full collection, as `gc.collect()` would, without writing to survivors.

    Without working memory of about 1% of the heap the built-in collector runs instead, which writes
    to survivors and leaves frozen objects out.

    Weak references, finalizers, `gc.garbage`, `gc.callbacks`, statistics and debug flags work as
    usual. Safe before and after a fork, and with other threads running.

    Args:
        frozen: also find garbage among frozen objects (those from before `gc.freeze()`).
            Sealed objects are never garbage.

    Returns:
        Number of unreachable objects; 0 if a collection is already running.

    Raises:
        UnsupportedInterpreter: there is no extension for this interpreter, or other
            interpreters live in this process.
    """
    extension = native()
    try:
        unreachable: int = extension.collect(frozen)
    except RuntimeError as error:
        raise UnsupportedInterpreter(str(error), hint="use gc.collect()") from None
    return unreachable


def install() -> None:
    """Run every full collection of this process and its future children out of line.

    This covers collections that CPython's own rule starts and calls of `gc.collect()`.
    `gc.enable()`, `gc.disable()` and `gc.set_threshold()` still decide whether and when one runs;
    none of them brings the built-in full collection back. Idempotent.

    Raises:
        UnsupportedInterpreter: there is no extension for this interpreter, or it does not know
            its collector.
    """
    try:
        native().watch_collections(True)
    except NotImplementedError as error:
        raise UnsupportedInterpreter(str(error), hint="use gc.collect()") from None


def uninstall() -> None:
    """Undo `install`: full collections are the built-in ones again.

    Raises:
        UnsupportedInterpreter: there is no extension for this interpreter.
    """
    native().watch_collections(False)


def is_installed() -> bool:
    """Whether full collections run out of line."""
    return bool(native().is_watching_collections())


def history() -> History:
    """The collections so far."""
    return History(**native().collection_history())


def is_nearly_due() -> bool:
    """Whether an automatic full collection is more than half way to being run.

    CPython runs one when generation 1 was collected more often than the threshold says,
    and a quarter of the long-lived objects are new (CPython 3.14 Python/gc.c,
    gc_select_generation). Never where the extension does not know the collector.
    """
    try:
        rule = native().full_collection_rule()
    except NotImplementedError:
        return False
    often: bool = 2 * rule["count"] > rule["threshold"]
    grown: bool = 8 * rule["pending"] > rule["total"]
    return bool(often and grown)


def collect_between_requests() -> int:
    """Run a full collection now if one would otherwise soon run in the middle of a request.

    In a child of a sealed process also if the last one took less than a thirtieth of the
    processor time since then. Call it after a response has been sent (gunicorn: `post_request`).
    If no collection is due it costs a microsecond.

    Returns:
        Number of unreachable objects; 0 if no collection was run.
    """
    return collect() if native().full_collection_pays() or is_nearly_due() else 0
