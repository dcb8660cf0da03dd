"""What becomes of a program that cannot be sealed."""

from __future__ import annotations

import logging
import sys

from pasture.errors import PastureError
from pasture.trust.complaint import complain

__all__ = ["complain", "end_or_warn"]

log = logging.getLogger("pasture")


def end_or_warn(error: PastureError, *, ends: bool) -> None:
    """End the program with the error, or report it and go on."""
    if ends:
        sys.exit(complain(error))
    log.warning("not sealed: %s", error)
