"""A forum with its first category, an administrator, and no mails."""

import subprocess
import sys
from pathlib import Path

config = Path("flaskbb.cfg")
config.write_text(
    f'SQLALCHEMY_DATABASE_URI = "sqlite:///{Path.cwd()}/flaskbb.db"\n'
    'SECRET_KEY = WTF_CSRF_SECRET_KEY = "of-this-test-alone"\n'
    "WTF_CSRF_ENABLED = False\n"
    "CELERY_CONFIG = {'task_always_eager': True}\n"
    "REDIS_ENABLED = False\n"
    "USE_DEFAULT_LOGGING = False\n"
    f'WHOOSHEE_DIR = "{Path.cwd()}/index"\n'
)
program = Path(sys.executable).with_name("flaskbb")
user = ("-u", "admin", "-e", "admin@example.com", "-p", "secret-of-a-test")
subprocess.run([program, "--config", config, "install", "-w", "-f", *user, "-n"], check=True)
