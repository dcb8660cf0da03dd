"""The site's Celery application: `celery -A meadow.celery worker`, and `beat`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "meadow.settings")

app = Celery("meadow")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
