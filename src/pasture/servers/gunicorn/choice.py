"""Which arbiter takes the place of gunicorn's: known once the configuration has been read."""

from __future__ import annotations

import sys
from typing import Any

from pasture.errors import PastureError
from pasture.servers.complaint import complain
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.gunicorn.configuration import settings


def make_arbiter(app: Any) -> SealingArbiter:
    """In place of gunicorn's `Arbiter`. Ends the process where the settings make no sense."""
    try:
        chosen = settings()
    except PastureError as error:
        # Raised from here it would be a traceback under gunicorn's own program.
        sys.exit(complain(error))
    if chosen.refork is None:
        return SealingArbiter(app, chosen)
    # Only here: what is imported is sealed in.
    from pasture.servers.refork.gunicorn.reforking_arbiter import ReforkingArbiter

    return ReforkingArbiter(app, chosen)
