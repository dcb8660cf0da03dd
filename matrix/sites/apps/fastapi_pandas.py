"""FastAPI over a DataFrame that is loaded at import, or in the lifespan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pandas as pd
from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel

ROWS = 300_000

router = APIRouter()


class Row(BaseModel):
    name: str
    town: str
    price: float


def make_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": pd.Series([f"article {n}" for n in range(ROWS)], dtype=object),
            "town": pd.Series([f"town {n % 3000}" for n in range(ROWS)], dtype=object),
            "price": [float(n % 997) for n in range(ROWS)],
        }
    )


@router.get("/rows/{number}")
def row(request: Request, number: int) -> Row:
    return Row(**request.app.state.frame.iloc[number].to_dict())


@router.get("/towns/{number}")
def town(request: Request, number: int) -> list[Row]:
    frame = request.app.state.frame
    found = frame[frame["town"] == f"town {number}"]
    return [Row(**values) for values in found.head(20).to_dict("records")]


@router.get("/longest")
def longest(request: Request) -> dict[str, Any]:
    return {"name": max(request.app.state.frame["name"], key=len)}


@asynccontextmanager
async def lifespan(loading: FastAPI) -> AsyncIterator[None]:
    loading.state.frame = make_frame()
    yield


def make_app() -> FastAPI:
    made = FastAPI()
    made.state.frame = make_frame()
    made.include_router(router)
    return made


def make_app_with_lifespan() -> FastAPI:
    made = FastAPI(lifespan=lifespan)
    made.include_router(router)
    return made
