"""Full garbage collections that write to no surviving object.

What they do is decided in the extension; here is when they run: when asked for, every time
(`install`), or between requests. Young collections stay CPython's own. docs/collector.md
tells users what changes; docs/internals/collector.md how it works.
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.errors import UnsupportedInterpreter
from pasture.sealing.interpreter import current, native

current()  # checks the interpreter's layout before any fork rather than after each


@dataclass(frozen=True, slots=True)
class History:
    """What the out-of-line collector did in this process, and before the fork in its parent.

    Attributes:
        collections: full collections run out of line.
        skipped: left to the built-in collector, because working memory could not be had.
        declined: left to the built-in collector, because there were other interpreters.
        from_roots: whether the last one started with a walk from the known roots. It does
            not where most of the heap is frozen.
        objects: examined by the last one.
        remainder: of these, how many the known roots did not lead to.
        garbage: of these, how many were found dead.
        scratch_bytes: working memory that the last one mapped, all given back.
        nanoseconds: that the last one took to find the garbage.
    """

    collections: int
    skipped: int
    declined: int
    from_roots: bool
    objects: int
    remainder: int
    garbage: int
    scratch_bytes: int
    nanoseconds: int


def collect(*, frozen: bool = False) -> int:
    """Run a full collection: in place of `gc.collect()`.

    Where working memory (about 1% of the heap) cannot be had the built-in collector runs in its
    place, which writes to survivors and leaves frozen objects out.

    Weak references, finalizers, `gc.garbage`, `gc.callbacks`, statistics and debug flags
    are served as ever, by CPython itself. Safe before and after a fork, and with other
    threads running.

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

    That is those which CPython's own rule asks for, and those that anybody asks for with
    `gc.collect()`. `gc.enable()`, `gc.disable()` and `gc.set_threshold()` decide as ever
    whether and when; none of them brings the built-in full collection back. Idempotent.

    Raises:
        UnsupportedInterpreter: there is no extension for this interpreter, or it does not know
            its collector.
    """
    try:
        native().watch_collections(True)
    except NotImplementedError as error:
        raise UnsupportedInterpreter(str(error), hint="use gc.collect()") from None


def uninstall() -> None:
    """Undo `install`: full collections are the built-in ones again."""
    native().watch_collections(False)


def is_installed() -> bool:
    """Whether full collections run out of line."""
    return bool(native().is_watching_collections())


def history() -> History:
    """What was collected so far."""
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

    To be called after a response has been sent (gunicorn: `post_request`). Costs a
    microsecond if nothing is to be done.

    Returns:
        Number of unreachable objects; 0 if no collection was run.
    """
    return collect() if is_nearly_due() else 0


def mend_counts() -> None:
    """Set reference counts of sealed objects again that old extensions have moved, if that is due.

    Happens by itself when a garbage collection starts. To be called now and then where none ever
    does: the collector is off, or a loop makes many calls and no containers. Costs a microsecond
    if it is not due. docs/seal.md, "Extensions", says what moves them.

    Raises:
        UnsupportedInterpreter: there is no extension for this interpreter.
    """
    native().mend_counts_if_due()
