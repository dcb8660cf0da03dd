"""A FastAPI application that names the process that serves it."""

import os

from fastapi import FastAPI
from pydantic import BaseModel

LOADED_BY = os.getpid()
app = FastAPI()


class Answer(BaseModel):
    pid: int
    loaded_by: int


@app.get("/")
def root() -> Answer:
    return Answer(pid=os.getpid(), loaded_by=LOADED_BY)
