"""aiohttp's own server, which does not fork. Importing this module is the switch.

Written for aiohttp 3; leans on `run_app`. Workers of gunicorn's do not call it.
"""

from pasture.servers.one_process import watch

watch("aiohttp", "aiohttp.web", "run_app")
