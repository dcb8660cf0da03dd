"""The policy `side-table`: full collections that write to no surviving object, and nothing frozen.

The GC head moved elsewhere (December 2017), PyPy's visited set (2018): what full collections alone
cost. Owns how a server gets it. In uWSGI, where `--shared-import` names this module before the
switch, it is known by its name; gunicorn takes it from this module as its configuration file.
"""

from __future__ import annotations

import os
import sys
from types import MappingProxyType

from pasture.sealing import policy

SIDE_TABLE = policy.Policy(
    "side-table",
    prepare=("warm-up", "close-connections"),
    heap=("collect",),
    in_child=("gc-on", "full-out-of-line"),
)
POLICIES = MappingProxyType({**policy.POLICIES, SIDE_TABLE.name: SIDE_TABLE})
"""pasture's policies, and the lab's own."""

if "uwsgi" in sys.modules:
    policy.POLICIES = POLICIES
elif __name__ == "__config__":
    from pasture.servers.gunicorn import configure

    del os.environ["PASTURE_POLICY"]  # of the trial, which starts the server under `stock`
    configure(policy=SIDE_TABLE)
