"""A FastAPI application in the common style: its data is loaded in the lifespan."""

import asyncio
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request


def square_all(count):
    return [n * n for n in range(count)]


@asynccontextmanager
async def lifespan(app):
    app.state.loaded_by = os.getpid()
    squares = await asyncio.to_thread(square_all, 1000)
    yield {"squares": squares}
    squares.clear()
    print("cleared", flush=True)


app = FastAPI(lifespan=lifespan)


@app.get("/")
def index(request: Request):  # in a thread of AnyIO's
    return {
        "pid": os.getpid(),
        "loaded_by": app.state.loaded_by,
        "squares": sum(request.state.squares),
    }
