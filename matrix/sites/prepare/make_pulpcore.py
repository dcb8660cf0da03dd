"""Pulp's settings, its database with an administrator, and a file that a repository serves.

The migrations take minutes. The database that they make is kept next to the sites, and copied back.
"""

import base64
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

database = urlsplit(os.environ["POSTGRES_URL"])
here = Path.cwd()
Path("settings.py").write_text(
    f"""\
SECRET_KEY = "of-this-test-alone-0123456789abcdef"
CONTENT_ORIGIN = "http://127.0.0.1"
DB_ENCRYPTION_KEY = "{here}/database.key"
DEPLOY_ROOT = "{here}"
MEDIA_ROOT = "{here}/media"
STATIC_ROOT = "{here}/assets"
WORKING_DIRECTORY = "{here}/tmp"
FILE_UPLOAD_TEMP_DIR = "{here}/tmp"
ANALYTICS = False
DATABASES = {{
    "default": {{
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "{database.username}",
        "HOST": "{database.hostname}",
        "PORT": {database.port},
        "CONN_MAX_AGE": 0,
    }}
}}
"""
)
# The key of one test: rows that are copied back were encrypted with it.
Path("database.key").write_bytes(base64.urlsafe_b64encode(b"of-this-test-alone-0123456789abc"))
for folder in ("media/artifact", "assets", "tmp"):
    Path(folder).mkdir(parents=True)
kept = Path(f"../../pulpcore-{version('pulpcore')}.sql")  # for both sites of Pulp's
manager = Path(sys.executable).with_name("pulpcore-manager")
url = os.environ["POSTGRES_URL"]
if kept.exists():
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", kept, url], check=True)
else:
    subprocess.run([manager, "migrate", "--no-input"], check=True)
    password = ("--password", "secret-of-a-test")
    subprocess.run([manager, "reset-admin-password", *password], check=True)
    subprocess.run(["pg_dump", "--clean", "--if-exists", "-f", kept, url], check=True)
