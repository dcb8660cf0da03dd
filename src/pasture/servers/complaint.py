"""How every command and server process tells its user of a mistake."""

from __future__ import annotations

import logging
import sys

from pasture.errors import PastureError
from pasture.trust.untrusted_text import printable_lines

log = logging.getLogger("pasture")


def end_or_warn(error: PastureError, *, ends: bool) -> None:
    """What becomes of a program that cannot be sealed: it ends with the error, or goes on."""
    if ends:
        sys.exit(complain(error))
    log.warning("not sealed: %s", error)


def complain(error: PastureError) -> int:
    """Write what happened and what to do about it to stderr; return the exit code."""
    hint = f"hint: {printable_lines(error.hint)}\n" if error.hint else ""
    sys.stderr.write(f"error: {printable_lines(error.message)}\n{hint}")
    sys.stderr.flush()
    return error.exit_code
