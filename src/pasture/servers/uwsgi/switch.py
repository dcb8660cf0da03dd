"""The switch inside of uWSGI, which `pasture run uwsgi` has uWSGI import.

The package itself was imported before uWSGI started, and is not executed again.
"""

import uwsgi

from pasture.servers.uwsgi.master import Uwsgi

engine = Uwsgi(uwsgi)
engine.switch()
