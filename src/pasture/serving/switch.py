"""An engine's seal, switched on by the environment alone: `PASTURE=seal`.

Called by the start file of `pasture[auto]`, right after the engine's own module was imported.
Unlike `pasture run` it must never end a program, whose command did not ask for pasture: wrong
settings are reported, and the program goes on unsealed. docs/environment.md is the user's guide.
"""

from __future__ import annotations

import importlib
import os
import sys

from pasture.errors import PastureError
from pasture.sealing.policy import find_policy
from pasture.serving.sealer import is_off, show_log
from pasture.serving.settings import SETTINGS, read_environment
from pasture.trust.untrusted_text import complain

POLICY = SETTINGS["policy"].variable
_LOGS_BY_ITSELF = "pasture.servers.gunicorn"


def switch_on(module: str, policy: str) -> None:
    """Import a module that seals an engine, under this policy or that of `PASTURE_POLICY`."""
    if module in sys.modules or is_off():  # the program imports pasture itself
        return
    before = os.environ.get(POLICY)
    try:
        find_policy(policy)  # an error, even if it is not used
        os.environ[POLICY] = before or policy
        read_environment()
        if module != _LOGS_BY_ITSELF:
            show_log()
        importlib.import_module(module)
    except PastureError as error:
        if before is None:  # restored for programs that this one starts
            os.environ.pop(POLICY, None)
        else:
            os.environ[POLICY] = before
        complain(error)
        sys.stderr.write("pasture: going on unsealed\n")
