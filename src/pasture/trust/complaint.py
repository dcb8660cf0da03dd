"""How every command and server process reports a user's mistake."""

from __future__ import annotations

import sys

from pasture.errors import ERROR, HINT, PastureError
from pasture.trust.untrusted_text import printable_lines


def complain(error: PastureError) -> int:
    """Write what happened and what to do about it to stderr; return the exit code."""
    hint = f"{HINT}{printable_lines(error.hint)}\n" if error.hint else ""
    sys.stderr.write(f"{ERROR}{printable_lines(error.message)}\n{hint}")
    sys.stderr.flush()
    return error.exit_code
