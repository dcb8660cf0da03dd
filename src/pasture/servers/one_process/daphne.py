"""daphne, which does not fork. Importing this module is the switch.

Written for daphne 4; leans on `Server.run`.
"""

from pasture.servers.one_process import watch

watch("daphne", "daphne.server", "Server.run")
