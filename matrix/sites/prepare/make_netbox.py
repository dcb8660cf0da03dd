"""NetBox's configuration, its database with a superuser and a token, and its static files.

The migrations take minutes. The database that they make is kept next to the data, and copied back.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

CONFIGURATION = """\
import os
from urllib.parse import urlparse

_database, _redis = urlparse(os.environ["POSTGRES_URL"]), urlparse(os.environ["REDIS_URL"])
ALLOWED_HOSTS = ["*"]
DATABASES = {
    "default": {
        "NAME": "postgres",
        "USER": _database.username,
        "PASSWORD": "",
        "HOST": _database.hostname,
        "PORT": _database.port,
        "CONN_MAX_AGE": 300,
    }
}
_REDIS = {"HOST": _redis.hostname, "PORT": _redis.port, "PASSWORD": "", "SSL": False}
REDIS = {"tasks": {**_REDIS, "DATABASE": 0}, "caching": {**_REDIS, "DATABASE": 1}}
SECRET_KEY = "of-this-test-alone-0123456789abcdefghijklmnopqrstuvwxyz"
API_TOKEN_PEPPERS = {1: "of-this-test-alone-0123456789abcdefghijklmnopqrstuvwxyz"}
CENSUS_REPORTING_ENABLED = False  # words: ok
ISOLATED_DEPLOYMENT = True
"""
TOKEN = "0123456789abcdef0123456789abcdef01234567"
USER = f"""\
from users.models import Token, User
user = User.objects.create_superuser("admin", "a@example.com", "Secret-of-a-test-1")
Token.objects.create(user=user, version=1, token="{TOKEN}")
"""

url = os.environ["POSTGRES_URL"]
netbox = Path(sys.executable).with_name("netbox")
Path("conf").mkdir()
Path("conf/configuration.py").write_text(CONFIGURATION)
kept = Path(f"../migrated-{version('netbox')}.sql")
if kept.exists():
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", kept, url], check=True)
else:
    subprocess.run([netbox, "migrate", "--no-input"], check=True)
    subprocess.run([netbox, "shell", "-c", USER], check=True)
    subprocess.run(["pg_dump", "--clean", "--if-exists", "-f", kept, url], check=True)
subprocess.run([netbox, "collectstatic", "--no-input", "-v", "0"], check=True)
