"""A wiki as `moin create-instance --full` makes it, in which everyone may write."""

import subprocess
import sys
from pathlib import Path

moin = Path(sys.executable).with_name("moin")
subprocess.run([moin, "create-instance"], check=True)
config = Path("wikiconfig.py")
text = config.read_text()
text = text.replace('"All:read"', '"All:read,write,create,destroy,admin"')
config.write_text(text)
subprocess.run([moin, "index-create"], check=True)
