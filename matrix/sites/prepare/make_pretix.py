"""An event with tickets, and an organiser who is logged in."""

import subprocess
import sys
from pathlib import Path

here = Path.cwd()
Path("data").mkdir(exist_ok=True)
Path("pretix.cfg").write_text(
    f"""[pretix]
instance_name = benchmark
url = http://localhost
datadir = {here}/data
[database]
backend = sqlite3
name = {here}/pretix.sqlite3
[mail]
from = o@example.com
"""
)


def manage(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pretix", *words], check=True)


manage("migrate", "--verbosity", "0")

import django  # noqa: E402

django.setup()

from datetime import timedelta  # noqa: E402
from decimal import Decimal  # noqa: E402

from django.utils.timezone import now  # noqa: E402
from django_scopes import scopes_disabled  # noqa: E402
from django_session import log_in  # noqa: E402
from pretix.base.models import Event, Organizer, User  # noqa: E402

with scopes_disabled():
    user = User.objects.filter(email="o@example.com").first()
    if user is None:
        user = User.objects.create_user("o@example.com", "secret-of-a-benchmark")
        user.is_staff = True
        user.save()
    organizer, _ = Organizer.objects.get_or_create(slug="o", defaults={"name": "O"})
    event = Event.objects.filter(slug="conf").first()
    if event is None:
        event = Event.objects.create(
            organizer=organizer, name="Conference", slug="conf", currency="EUR", live=True,
            date_from=now() + timedelta(days=30), plugins="pretix.plugins.banktransfer",
        )  # fmt: skip
        quota = event.quotas.create(name="all", size=1000)
        for number in range(20):
            item = event.items.create(name=f"Ticket {number}", default_price=Decimal(number))
            quota.items.add(item)
    may = {"all_events": True, "all_event_permissions": True, "all_organizer_permissions": True}
    team, _ = organizer.teams.update_or_create(name="all", defaults=may)
    team.members.add(user)
    cookie = log_in(user)

Path("headers.txt").write_text(f"Cookie: {cookie}\nHost: localhost\n")
urls = ["/o/conf/", "/o/", "/o/conf/?lang=de", "/control/login", "/control/", "/control/events/"]
urls += ["/control/event/o/conf/", "/control/event/o/conf/items/", "/control/event/o/conf/orders/"]
urls += ["/control/event/o/conf/settings/", "/control/organizers/"]
Path("urls.txt").write_text("\n".join(urls) + "\n")
