"""`python -m pasture.servers.uwsgi ARGS`: what `pasture run uwsgi ARGS` becomes.

uWSGI runs inside this interpreter where `pyuwsgi` is installed; else the program `uwsgi` replaces
this process.
"""

import os
import shutil
import sys

from pasture.errors import MissingExtra
from pasture.serving.sealer import is_off
from pasture.serving.starter import starter, take_name
from pasture.trust.untrusted_text import complain

# Shared: imported by the master under lazy-apps too, which can then be refused.
SWITCH = ("--shared-import", "pasture.servers.uwsgi.switch")


def run() -> int:
    """Serve until asked to stop; returns an exit code only if the start failed."""
    switch = () if is_off() else SWITCH
    try:
        import pyuwsgi
    except ImportError:
        program = shutil.which("uwsgi")
        if program is None:
            return complain(
                MissingExtra("uWSGI is not installed", hint="pip install 'pasture[uwsgi]'")
            )
        os.execv(program, [program, *sys.argv[1:], *switch])
    take_name("uwsgi")
    # uWSGI starts itself again at a reload, and would take the interpreter behind the virtual
    # environment, without the environment.
    itself = ("--binary-path", starter())
    return int(pyuwsgi.run([*sys.argv[1:], *switch, *itself]))


if __name__ == "__main__":
    sys.exit(run())
