"""`pasture.servers.forkserver`, whose line goes to stderr: for `pasture run -- python` and Dask.

Importing it is the switch.
"""

from pasture.serving.sealer import show_log

show_log()

import pasture.servers.forkserver  # noqa: E402, F401  it seals before the first fork
