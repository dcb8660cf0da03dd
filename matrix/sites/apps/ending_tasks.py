"""Dispatches tasks of Pulp that end themselves, and prints the outcome of each."""

import sys
import time

import django

django.setup()

from django_guid import set_guid  # noqa: E402
from ending_jobs import spelled  # noqa: E402
from pulpcore.app.models import Task  # noqa: E402
from pulpcore.tasking.tasks import dispatch  # noqa: E402

FINAL = ("completed", "failed", "canceled", "skipped")
TASKS = (("adds", 1, 2), ("leaves", 0), ("leaves", 3), ("drops", 3), ("adds", 3, 4))


def main():
    set_guid("0" * 32)
    started = [
        (one, dispatch(f"ending_jobs.{one[0]}", args=one[1:], versions={}).pk) for one in TASKS
    ]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and Task.objects.exclude(state__in=FINAL).exists():
        time.sleep(0.2)
    for asked, key in started:
        task = Task.objects.get(pk=key)
        error = (task.error or {}).get("description", "") or (task.error or {}).get("reason", "")
        print(spelled(f"{asked} {task.state} {error[-200:]}"))


if __name__ == "__main__":
    sys.exit(main())
