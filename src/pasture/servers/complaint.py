"""How a server process tells its user of a mistake, before it serves anything."""

from __future__ import annotations

import sys

from pasture.errors import PastureError


def complain(error: PastureError) -> int:
    """Write what happened and what to do about it to stderr; return the exit code."""
    hint = f"hint: {error.hint}\n" if error.hint else ""
    sys.stderr.write(f"error: {error.message}\n{hint}")
    sys.stderr.flush()
    return error.exit_code
