"""waitress, which does not fork. Importing this module is the switch.

Written for waitress 2 and 3; leans on the classes' method `run`.
"""

from pasture.servers.one_process import watch

watch("waitress", "waitress.server", "BaseWSGIServer.run", "MultiSocketServer.run")
