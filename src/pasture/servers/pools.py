"""`multiprocessing` and `concurrent.futures`, sealed: `with pasture.sealed():`.

Owns the choice of the start method and the refusals. docs/multiprocessing.md is the user's
guide.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from pasture import off
from pasture.errors import UsageError
from pasture.log_lines import log
from pasture.sealing.policy import Policy, find_policy, traced
from pasture.sealing.report import SealReport
from pasture.sealing.seal import seal
from pasture.serving import learned
from pasture.serving.sealer import is_off, level_of
from pasture.serving.settings import SETTINGS

OBSERVING_MODULE = "pasture.servers.observed_forkserver"
PRELOAD_MODULE = "pasture.servers.forkserver"


@dataclass(frozen=True, slots=True)
class SealedContext:
    """The value of `with pasture.sealed() as`.

    Attributes:
        context: makes `context.Pool()` and `context.Process()`, and is the `mp_context` of a
            `ProcessPoolExecutor`.
        report: what the seal did.
    """

    context: Any
    report: SealReport


@contextmanager
def sealed(
    context: BaseContext | str | None = None,
    *,
    policy: str | Policy | None = None,
    strict: bool = False,
    auto: str | Path | None = None,
) -> Iterator[SealedContext]:
    """Seal this process for the pools and processes that the `with` block starts.

    Load the data first, start the workers inside. Call it before any thread is started.
    The seal lasts: objects that were alive at the entry are never freed, also after the block.

    Args:
        context: a context of `multiprocessing` or its start method; None is "fork".
        policy: name of a policy, or your own `Policy`; None is "seal".
        strict: raise if the process was not sealed.
        auto: file in which workers record what they import and run, and which is built first. None
        is the variable PASTURE_AUTO, if set.

    Yields:
        The context to start workers with, and the report.

    Raises:
        UsageError: the context does not fork from this process.
        UnknownPolicy, UnsupportedInterpreter, SealFailed: as `pasture.seal`.
    """
    if is_off():
        given = "fork" if context is None else context
        plain = multiprocessing.get_context(given) if isinstance(given, str) else given
        yield SealedContext(plain, seal())
        return
    chosen = _fork_context(context)
    found = find_policy(policy)
    file = SETTINGS["auto"].read({} if auto else os.environ, {"auto": auto})
    if file is not None:
        found = traced(found)
        learned.prepare(file, found)
        learned.choose_code(found, ran=False)
    report = seal(found, strict=strict)
    log.log(level_of(found, report), "%s", report)
    yield SealedContext(chosen, report)


def sealed_forkserver(*modules: str) -> Any:
    """A forkserver context whose server loads these modules and is sealed before it forks.

    Call it before the first child of a forkserver is started.

    Args:
        modules: imported by the server, in this order, after the program's main module.

    Returns:
        A context of `multiprocessing`.

    Raises:
        UsageError: the forkserver of this process runs already.
    """
    if not off.why() and getattr(forkserver._forkserver, "_forkserver_pid", None) is not None:
        raise UsageError(
            "the forkserver of this process is running already, unsealed",
            hint="call sealed_forkserver() before the first process or pool is started",
        )
    context = multiprocessing.get_context("forkserver")
    if is_off():
        context.set_forkserver_preload(["__main__", *modules])
        return context
    context.set_forkserver_preload(["__main__", OBSERVING_MODULE, *modules, PRELOAD_MODULE])
    return context


def _fork_context(context: BaseContext | str | None) -> BaseContext:
    given = "fork" if context is None else context
    chosen = multiprocessing.get_context(given) if isinstance(given, str) else given
    method = chosen.get_start_method()
    if method == "fork":
        return chosen
    raise UsageError(
        f"children of the start method {method!r} are not forked from this process",
        hint="seal the server: pasture.sealed_forkserver('my_module')"
        if method == "forkserver"
        else "they begin with an empty interpreter and share nothing: use 'fork' or 'forkserver'",
    )
