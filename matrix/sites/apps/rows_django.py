"""Rows behind Django, all of it in one file."""

import django
import rows
from django.conf import settings

settings.configure(
    SECRET_KEY="of-this-test-alone",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="rows_django",
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": rows.FILE,
            "CONN_MAX_AGE": None,
            "OPTIONS": {"timeout": 30},
        }
    },
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import models  # noqa: E402
from django.http import HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402


class Row(models.Model):
    """A row, in the table that `rows` made."""

    rowid = models.AutoField(primary_key=True)
    text = models.TextField()

    class Meta:
        """The table."""

        app_label, db_table, managed = "rows", "rows", False


def on_rows(request):
    """All rows, a new one, or none any more."""
    if request.method == "POST":
        Row.objects.create(text=request.GET["text"])
        return HttpResponse("made", status=201)
    if request.method == "DELETE":
        Row.objects.all().delete()
        return HttpResponse("removed")
    texts = Row.objects.order_by("rowid").values_list("text", flat=True)
    return JsonResponse(list(texts), safe=False)


def start(request):
    """A row that a job writes."""
    rows.start(rows.write, request.GET["text"])
    return HttpResponse("started", status=202)


def fails(request):
    """An error of the application."""
    raise ValueError("as it should")


urlpatterns = [path("rows", on_rows), path("jobs", start), path("fails", fails)]
application = get_wsgi_application()
