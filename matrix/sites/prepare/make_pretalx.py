"""An event with talks, and an organiser who is logged in."""

import subprocess
import sys
from pathlib import Path

here = Path.cwd()
Path("pretalx.cfg").write_text(
    f"""[filesystem]
data = {here}/data
logs = {here}/logs
[site]
debug = False
url = http://localhost
https = False
[database]
backend = sqlite3
name = {here}/pretalx.sqlite3
[logging]
level = ERROR
"""
)

# Redis is not everywhere; without it sessions and the cache stay in the database and the process.
Path("pretalx_settings.py").write_text(
    """from pretalx.settings import *  # noqa: F403

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
SESSION_ENGINE = "django.contrib.sessions.backends.db"
# Without the manifest, which npm would have to make.
STATIC = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": STATIC}}  # noqa: F405
"""
)


def manage(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pretalx", *words], check=True)


manage("migrate", "--verbosity", "0")

import django  # noqa: E402

django.setup()

from datetime import timedelta  # noqa: E402

from django.utils.timezone import now  # noqa: E402
from django_scopes import scopes_disabled  # noqa: E402
from django_session import log_in  # noqa: E402
from pretalx.event.domain.event import create_event  # noqa: E402
from pretalx.event.models import Event, Organiser  # noqa: E402
from pretalx.person.models import User  # noqa: E402
from pretalx.submission.models import Submission, SubmissionStates  # noqa: E402

with scopes_disabled():
    user, _ = User.objects.get_or_create(
        email="o@example.com", defaults={"name": "Organiser", "is_administrator": True}
    )
    organiser, _ = Organiser.objects.get_or_create(slug="o", defaults={"name": "O"})
    event = Event.objects.filter(slug="conf").first()
    if event is None:
        day = now().date()
        event = create_event(
            organiser=organiser,
            locales=["en"],
            name="Conference",
            slug="conf",
            date_from=day,
            date_to=day + timedelta(days=2),
            email="o@example.com",
            timezone="UTC",
            locale="en",
            is_public=True,
        )
        for number in range(30):
            talk = Submission.objects.create(
                event=event,
                title=f"Talk {number}",
                submission_type=event.cfp.default_type,
                abstract="About " * 40,
                state=SubmissionStates.SUBMITTED,
                content_locale="en",
            )
    cookie = log_in(user)
    codes = list(Submission.all_objects.values_list("code", flat=True))

Path("headers.txt").write_text(f"Cookie: {cookie}\nHost: localhost\n")
urls = ["/conf/", "/conf/schedule/", "/conf/cfp", "/orga/event/", "/orga/event/conf/"]
urls += [
    "/orga/event/conf/submissions/",
    "/orga/event/conf/speakers/",
    "/orga/event/conf/mails/sent",
]
urls += [f"/orga/event/conf/submissions/{code}/" for code in codes]
Path("urls.txt").write_text("\n".join(urls) + "\n")
