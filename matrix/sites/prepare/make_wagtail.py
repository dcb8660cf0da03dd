"""A site as `wagtail start` makes it, with pages, and an editor with a password."""

import os
import subprocess
import sys
from pathlib import Path

plain = {k: v for k, v in os.environ.items() if k not in ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")}
wagtail = Path(sys.executable).with_name("wagtail")
subprocess.run([wagtail, "start", "mysite"], check=True, env=plain)
os.chdir("mysite")
sys.path.insert(0, ".")
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings.dev"

import django  # noqa: E402

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from home.models import HomePage  # noqa: E402

call_command("migrate", verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)
home = HomePage.objects.first()
for number in range(12):
    home.add_child(instance=HomePage(title=f"Page {number}"))
    home.refresh_from_db()
get_user_model().objects.create_superuser("editor", "e@example.com", "secret-of-a-test")
