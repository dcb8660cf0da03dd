"""Rows behind FastAPI."""

import rows
from fastapi import BackgroundTasks, FastAPI

application = FastAPI()


@application.get("/rows")
def read():
    """All rows."""
    return rows.read()


@application.post("/rows", status_code=201)
def write(text: str):
    """A new row."""
    rows.write(text)
    return "made"


@application.delete("/rows")
def clear():
    """Remove all rows."""
    rows.clear()
    return "removed"


@application.post("/jobs", status_code=202)
async def start(text: str, tasks: BackgroundTasks):
    """A row that a job writes."""
    tasks.add_task(rows.write, text)
    return "started"


@application.get("/fails")
async def fails():
    """An error of the application."""
    raise ValueError("as it should")
