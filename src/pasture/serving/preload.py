"""Imports in a parent that forks, and the report of a failure, with the application's traceback."""

from __future__ import annotations

import importlib
import textwrap
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pasture.errors import AppImportFailed, PastureError
from pasture.log_lines import log

_HINT = "check PASTURE_PRELOAD, or the list of the forkserver"
_IMPORTING = ("importlib", "pasture", "_frozen_importlib")


def import_failed(app: str, error: BaseException, *, server: str, hint: str) -> AppImportFailed:
    """The error to raise in place of one from the application's import.

    Args:
        app: the application, as the user has named it.
        server: package of the server, whose frames are left out.
        hint: advice, in front of the traceback.
    """
    from pasture.serving.app_name import did_you_mean  # imported now: else it would be sealed in

    last = traceback.format_exception_only(error)[-1].strip()
    meant = did_you_mean(app, Path.cwd()) if isinstance(error, ImportError) else ""
    lines = (meant or hint, _trace(error, (server, *_IMPORTING)))
    module = app.partition(":")[0]
    inner = error if isinstance(error, ModuleNotFoundError) else error.__context__
    missing = inner.name if isinstance(inner, ModuleNotFoundError) else None
    return AppImportFailed(
        f"{app} cannot be imported: {last}",
        hint="\n".join(filter(None, lines)),
        is_certain=missing is not None and f"{module}.".startswith(f"{missing}."),
    )


@contextmanager
def importing(app: str, *, server: str, hint: str) -> Iterator[None]:
    """Import the application in the `with` block, or raise `import_failed` of these arguments."""
    try:
        yield
    except PastureError:
        raise
    except Exception as error:
        raise import_failed(app, error, server=server, hint=hint) from error


def _trace(error: BaseException, importing: Collection[str]) -> str:
    """The tracebacks of a chain, each from the application's own first line on, indented.

    "" without a line of the application's: then it was not found, or its name is wrong.
    """
    shown = traceback.TracebackException.from_exception(error)
    if not any([_begin_with_own(part, where, importing) for part, where in _chain(shown, error)]):
        return ""
    return textwrap.indent("".join(shown.format()).rstrip(), "    ", lambda line: True)


def _chain(
    shown: traceback.TracebackException, error: BaseException
) -> Iterator[tuple[traceback.TracebackException, BaseException]]:
    yield shown, error
    for part, where in ((shown.__cause__, error.__cause__), (shown.__context__, error.__context__)):
        if part is not None and where is not None:
            yield from _chain(part, where)


def _begin_with_own(
    shown: traceback.TracebackException, error: BaseException, importing: Collection[str]
) -> bool:
    """Remove the frames of the importer; returns whether frames are left."""
    begin, count = error.__traceback__, 0
    while begin is not None and _is_of_the_import(begin, importing):
        begin, count = begin.tb_next, count + 1
    if begin is None:
        shown.stack = None  # type: ignore[assignment]  # as of an exception that was not raised
        return False
    del shown.stack[:count]
    return True


def _is_of_the_import(entry: TracebackType, importing: Collection[str]) -> bool:
    module = entry.tb_frame.f_globals
    # A server that was started with -m is called __main__; its package or spec has its name.
    spec = getattr(module.get("__spec__"), "name", "")
    names = (str(module.get("__name__", "")), str(module.get("__package__") or ""), str(spec))
    return any(name.partition(".")[0] in importing for name in names)


def load(modules: Iterable[str], *, is_needed: bool) -> None:
    """Import modules for the children's sake: `PASTURE_PRELOAD=my_tasks,my_models`.

    In the parent, before the seal, in this order. A module that cannot be imported is reported and
    left out: each child imports it, or fails as without pasture. With `is_needed` it raises
    AppImportFailed.
    """
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # a script may end at its import
            failed = import_failed(name, error, server="importlib", hint=_HINT)
            if is_needed:
                raise failed from error
            log.warning("not preloaded: %s\n%s", failed.message, failed.hint)
