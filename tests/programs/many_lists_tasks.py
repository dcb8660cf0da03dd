"""The application of `many_lists` as one of Celery's, with a broker inside of the process."""

import celery
from many_lists import LISTS  # noqa: F401

app = celery.Celery("many_lists_tasks", broker="memory://")
