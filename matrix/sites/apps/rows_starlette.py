"""Rows behind Starlette."""

import rows
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route


def on_rows(request):
    """All rows, a new one, or none any more."""
    if request.method == "POST":
        rows.write(request.query_params["text"])
        return PlainTextResponse("made", 201)
    if request.method == "DELETE":
        rows.clear()
        return PlainTextResponse("removed")
    return JSONResponse(rows.read())


async def start(request):
    """A row that a job writes."""
    task = BackgroundTask(rows.write, request.query_params["text"])
    return PlainTextResponse("started", 202, background=task)


async def fails(request):
    """An error of the application."""
    raise ValueError("as it should")


application = Starlette(
    routes=[
        Route("/rows", on_rows, methods=["GET", "POST", "DELETE"]),
        Route("/jobs", start, methods=["POST"]),
        Route("/fails", fails),
    ]
)
