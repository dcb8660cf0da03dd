"""The switch inside of uWSGI, which `pasture run uwsgi` has uWSGI import.

The package itself has been imported before uWSGI was there, and would not be run again.
"""

import uwsgi

from pasture.servers.uwsgi.master import Uwsgi

engine = Uwsgi(uwsgi)
engine.switch()
