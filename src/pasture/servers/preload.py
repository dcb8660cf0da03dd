"""Imports in a parent that forks, and the report of one that fails: its own traceback, not ours."""

from __future__ import annotations

import importlib
import textwrap
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from pasture.errors import AppImportFailed, PastureError
from pasture.log_lines import log

_HINT = "check PASTURE_PRELOAD, or the list of the forkserver"
_IMPORTING = ("importlib", "pasture", "_frozen_importlib")


def import_failed(app: str, error: BaseException, *, server: str, hint: str) -> AppImportFailed:
    """The error to raise in place of one that came out of the application's import.

    Args:
        app: the application, as the user has named it.
        server: package of the server, whose frames say nothing to the user.
        hint: advice, in front of the traceback.
    """
    last = traceback.format_exception_only(error)[-1].strip()
    trace = _trace(error, (server, *_IMPORTING))
    return AppImportFailed(f"{app} cannot be imported: {last}", hint=f"{hint}\n{trace}")


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
    """The traceback from the application's own first line on, indented."""
    begin = error.__traceback__
    while begin is not None and _is_of_the_import(begin, importing):
        begin = begin.tb_next
    text = "".join(traceback.format_exception(type(error), error, begin)).rstrip()
    return textwrap.indent(text, "    ")


def _is_of_the_import(entry: TracebackType, importing: Collection[str]) -> bool:
    module = entry.tb_frame.f_globals
    # A server that was started with -m is called __main__, and its package says what it is.
    names = (str(module.get("__name__", "")), str(module.get("__package__") or ""))
    return any(name.partition(".")[0] in importing for name in names)


def load(modules: Iterable[str], *, strict: bool) -> None:
    """Import modules for the children's sake: `PASTURE_PRELOAD=my_tasks,my_models`.

    In the parent, before the seal, in this order. One that cannot be imported is reported and left
    out: each child imports it for itself, or fails as it would without pasture. It is
    AppImportFailed if the settings are `strict`.
    """
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # a script may end at its import
            failed = import_failed(name, error, server="importlib", hint=_HINT)
            if strict:
                raise failed from error
            log.warning("not preloaded: %s\n%s", failed.message, failed.hint)
