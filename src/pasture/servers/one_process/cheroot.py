"""cheroot, CherryPy's server, of which nothing is forked. Importing this module is the switch.

Written for cheroot 8 to 11; leans on `HTTPServer.serve`.
"""

from pasture.servers.one_process import watch

watch("cheroot", "cheroot.server", "HTTPServer.serve")
