"""What programs do before they wait. Its code is laid together, and what it makes is dropped."""

from django.core.management import call_command
from mysite.celery import app

app.loader.import_default_modules()
for part in ("amqp", "log", "control"):
    getattr(app, part)
call_command("check")
