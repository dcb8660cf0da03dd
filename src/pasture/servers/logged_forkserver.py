"""`pasture.servers.forkserver`, whose line goes to stderr: for `pasture run -- python` and Dask.

Importing it is the switch. A forkserver that a child starts is sealed, too.
"""

from pasture.serving.sealer import show_log
from pasture.serving.spawning import seal_forkservers

show_log()
seal_forkservers()

import pasture.servers.forkserver  # noqa: E402, F401  it seals before the first fork
