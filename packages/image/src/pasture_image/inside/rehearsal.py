"""Which code programs run, found out before an image is made of the process.

Code that runs writes to itself. The seal gathers the code that has run on pages of its own; in a
builder that is the import of modules, which no program does again. A rehearsal does what programs
will do, in a process forked from the builder that ends after it. Which code ran there is known by
its address, which is the same in both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from pasture.errors import ImageFailed, PastureError
from pasture.interpreter import native
from pasture_image.inside.apart import Apart

TIMEOUT_S = 120.0


def choose_code(script: str, environ: int, close: Iterable[int], *, warmed: bool = False) -> None:
    """Choose the code that the seal of this process gathers.

    Where code cannot be gathered nothing is rehearsed, and standard error says so.

    Args:
        script: path of the program that rehearses.
        environ: descriptor of the environment that it has (`environment`).
        close: descriptors that are not for it.
        warmed: whether code that a warm-up has run is chosen, too: runs were forgotten before it.

    Raises:
        ImageFailed: the program ended with an error, or did not end.
    """
    try:
        ran: bytes = native().code_that_ran()
    except (NotImplementedError, PastureError) as error:
        print(f"nothing is rehearsed: {error}", file=sys.stderr, flush=True)
        return

    def run() -> bytes:
        import runpy  # in the process that ends, not in the image

        native().forget_code_runs()
        sys.argv[:] = [script]
        sys.path.insert(0, os.path.dirname(script))  # noqa: PTH120
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
        return native().code_that_ran()  # type: ignore[no-any-return]

    found = Apart(run, environ, close).result(TIMEOUT_S)
    if found is None:
        raise ImageFailed(
            f"the rehearsal did not end within {TIMEOUT_S:g} s", hint="let it do less"
        )
    if not found:
        raise ImageFailed("the rehearsal ended with an error", hint="see what it said above")
    native().choose_code(ran + found if warmed else found)
