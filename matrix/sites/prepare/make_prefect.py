"""A database with its tables: workers that start at once would make them side by side."""

import subprocess
import sys
from pathlib import Path

prefect = Path(sys.executable).with_name("prefect")
subprocess.run([prefect, "server", "database", "upgrade", "-y"], check=True)
