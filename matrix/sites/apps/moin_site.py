"""A wiki in one folder."""

import os
from pathlib import Path

from moin.app import create_app

os.chdir(os.environ["SITE_DATA"])
application = create_app(str(Path("wikiconfig.py").resolve()))
