"""A site as `wagtail start` makes it, with 40 pages, and an editor who is logged in."""

import os
import subprocess
import sys
from pathlib import Path

if not Path("mysite").exists():
    wagtail = Path(sys.executable).with_name("wagtail")
    subprocess.run([wagtail, "start", "mysite"], check=True)
os.chdir("mysite")
sys.path.insert(0, ".")
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings.dev"

import django  # noqa: E402

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django_session import log_in  # noqa: E402
from home.models import HomePage  # noqa: E402

call_command("migrate", verbosity=0)
home = HomePage.objects.first()
while home.get_children().count() < 40:
    home.add_child(instance=HomePage(title=f"Page {home.get_children().count()}"))
    home.refresh_from_db()
editor, _ = get_user_model().objects.get_or_create(
    username="editor", defaults={"is_superuser": True, "is_staff": True, "is_active": True}
)
cookie = log_in(editor)
Path("../headers.txt").write_text(f"Cookie: {cookie}\n")
urls = ["/", *(f"/page-{n}/" for n in range(30)), "/search/?query=page"]
urls += ["/admin/", f"/admin/pages/{home.pk}/", f"/admin/pages/{home.pk}/edit/", "/admin/users/"]
urls += ["/admin/images/", "/admin/reports/site-history/"]
Path("../urls.txt").write_text("\n".join(urls) + "\n")
