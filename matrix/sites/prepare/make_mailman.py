"""Mailman's pages without its core: settings, tables, an administrator."""

import os
import subprocess
import sys
from pathlib import Path

here = Path.cwd()
Path("settings.py").write_text(
    "from mailman_web.settings.base import *\n"
    "from mailman_web.settings.mailman import *\n"
    f"BASE = '{here}'\n"
    "SECRET_KEY = 'of-this-test-alone'\n"
    "ALLOWED_HOSTS = ['*']\n"
    f"DATABASES = {{'default': {{'ENGINE': 'django.db.backends.sqlite3', 'NAME': '{here}/web.db'}}}}\n"
    f"STATIC_ROOT = '{here}/static'\n"
    f"HAYSTACK_CONNECTIONS['default']['PATH'] = '{here}/index'\n"
    "LOGGING = {'version': 1}\n"
    "MAILMAN_REST_API_URL = 'http://127.0.0.1:9'\n"
    "MAILMAN_ARCHIVER_FROM = ('127.0.0.1',)\n"
    "MAILMAN_ARCHIVER_KEY = 'key'\n"
    "COMPRESS_ENABLED = False\n"
)
program = Path(sys.executable).with_name("mailman-web")
made = {**os.environ, "DJANGO_SUPERUSER_PASSWORD": "secret-of-a-test"}
user = ("createsuperuser", "--noinput", "--username", "admin", "--email", "admin@example.com")
for words in (("migrate",), ("collectstatic", "--noinput"), user):
    subprocess.run([program, *words], check=True, env=made)
