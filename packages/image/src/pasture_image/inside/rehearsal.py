"""What programs will run, found out before an image is made of the process.

Code that runs writes to itself. The seal gathers the code that has run on pages of its own; what
has run in a builder is the import of modules, though, and no program does that again. So a
rehearsal does what programs will do, in a process forked from the builder that ends after it. Which
code ran there is known by its address, which is the same in both.

Without a rehearsal all code is gathered that looks as if it ran: what modules ran when they were
loaded.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable

from pasture.errors import ImageFailed, PastureError
from pasture.interpreter import native
from pasture_image.inside.apart import Apart

Rehearsal = Callable[[], object]

TIMEOUT_S = 120.0
_rehearsals: list[Rehearsal] = []


def rehearse(function: Rehearsal) -> Rehearsal:
    """Have a function rehearse what programs out of an image do; for modules that are preloaded.

    It is called in a process of its own, with all modules loaded, and may end that.
    """
    _rehearsals.append(function)
    return function


def choose_code(script: str, environ: int, close: Iterable[int], *, warmed: bool = False) -> None:
    """Choose the code that the seal of this process gathers. Rehearses, if there is anything to.

    A rehearsal of a module that fails is left out, and standard error says so. Where code cannot be
    gathered nothing is rehearsed.

    Args:
        script: path of a program that is run, too; "" for none.
        environ: descriptor of the environment that rehearsals have (`environment`).
        close: descriptors that are not for the rehearsals.
        warmed: whether code that a warm-up has run is chosen, too: runs were forgotten before it.

    Raises:
        ImageFailed: the program ended with an error, or did not end.
    """
    if not (_rehearsals or script) or not _can_gather():
        return
    close = list(close)
    seen: bytes = native().code_that_ran() if warmed else b""
    seen += b"".join(_seen_or_said(rehearsal, environ, close) for rehearsal in _rehearsals)
    if script:
        seen += _seen(lambda: _code_of(lambda: _run(script)), environ, close)
    native().choose_code(seen)


def imported(
    script: str, preload: Iterable[str], environ: int, close: Iterable[int]
) -> tuple[str, ...]:
    """Names of the modules that are loaded once a program has run, in the order of their import.

    Args:
        script: its path.
        preload: modules that it finds loaded.
        environ: descriptor of the environment that it has (`environment`).
        close: descriptors that are not for it.

    Raises:
        ImageFailed: it ended with an error, or did not end.
    """

    def modules() -> bytes:
        for name in preload:
            importlib.import_module(name)
        _play(lambda: _run(script))
        return "\n".join(name for name in sys.modules if name.isprintable()).encode()

    return tuple(_seen(modules, environ, close).decode().splitlines())


def _can_gather() -> bool:
    try:
        native().code_that_ran()
    except (NotImplementedError, PastureError) as error:
        print(f"nothing is rehearsed: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _seen_or_said(rehearsal: Rehearsal, environ: int, close: list[int]) -> bytes:
    try:
        return _seen(lambda: _code_of(rehearsal), environ, close)
    except ImageFailed as error:
        print(f"{rehearsal.__module__}: {error.message}", file=sys.stderr, flush=True)
        return b""


def _run(script: str) -> None:
    """Run a file as the interpreter runs its program."""
    import runpy  # in the process that ends, not in the image

    sys.argv[:] = [script]
    sys.path.insert(0, os.path.dirname(script))  # noqa: PTH120
    runpy.run_path(script, run_name="__main__")


def _code_of(rehearsal: Rehearsal) -> bytes:
    """Addresses of the code that runs in a rehearsal."""
    native().forget_code_runs()
    _play(rehearsal)
    seen: bytes = native().code_that_ran()
    return seen


def _play(rehearsal: Rehearsal) -> None:
    try:
        rehearsal()
    except SystemExit as ended:
        if ended.code:
            raise


def _seen(work: Callable[[], bytes], environ: int, close: Iterable[int]) -> bytes:
    """What is found out in a process of its own."""
    found = Apart(work, environ, close).result(TIMEOUT_S)
    if found is None:
        raise ImageFailed(
            f"the rehearsal did not end within {TIMEOUT_S:g} s", hint="let it do less"
        )
    if not found:
        raise ImageFailed("the rehearsal ended with an error", hint="see what it said above")
    return found
