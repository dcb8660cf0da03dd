"""cheroot, CherryPy's server, which does not fork. Importing this module is the switch.

Written for cheroot 8 to 11; leans on `HTTPServer.serve`.
"""

from pasture.servers.one_process import watch

watch("cheroot", "cheroot.server", "HTTPServer.serve")
