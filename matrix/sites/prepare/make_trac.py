"""A project that everyone may change."""

import subprocess
import sys
from pathlib import Path

admin = Path(sys.executable).with_name("trac-admin")
subprocess.run([admin, "project", "initenv", "project", "sqlite:db/trac.db"], check=True)
subprocess.run([admin, "project", "permission", "add", "anonymous", "TRAC_ADMIN"], check=True)
