"""Modules that a parent imports for its children's sake: `PASTURE_PRELOAD=my_tasks,my_models`.

For engines whose parent loads nothing of the application by itself. Owns what becomes of a module
that cannot be imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from pasture.log_lines import log
from pasture.servers.import_failure import import_failed


def load(modules: Iterable[str], *, strict: bool) -> None:
    """Import modules, in this order. In the parent, before the seal.

    One that cannot be imported is reported and left out: each child imports it for itself, or fails
    as it would without pasture.

    Raises:
        AppImportFailed: `strict`, and one cannot be imported.
    """
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # a script may end at its import
            failed = import_failed(name, error, server="importlib", hint="check PASTURE_PRELOAD")
            if strict:
                raise failed from error
            log.warning("not preloaded: %s\n%s", failed.message, failed.hint)
