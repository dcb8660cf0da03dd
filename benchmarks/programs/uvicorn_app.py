"""A FastAPI application with pydantic models and SQLAlchemy tables, as `uvicorn_workers` serves it.

Sixteen resources, each with a table, three models and four routes; SQLite below, of each worker's
own. Nothing is held besides what the packages and these definitions are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, Field, create_model
from sqlalchemy import ForeignKey, String, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.pool import StaticPool

RESOURCES = 16
ROWS = 50


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80))


class OwnerOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int
    name: str


def table(number: int) -> Any:
    return type(
        f"Item{number}",
        (Base,),
        {
            "__tablename__": f"item_{number}",
            "__annotations__": {
                "id": Mapped[int],
                "name": Mapped[str],
                "price": Mapped[float],
                "made": Mapped[datetime],
                "owner_id": Mapped[int],
            },
            "id": mapped_column(primary_key=True),
            "name": mapped_column(String(80)),
            "price": mapped_column(),
            "made": mapped_column(),
            "owner_id": mapped_column(ForeignKey("owner.id")),
            "owner": relationship(Owner, lazy="joined"),
        },
    )


def models(number: int) -> tuple[Any, Any]:
    given = create_model(
        f"Item{number}In",
        name=(str, Field(min_length=1, max_length=80)),
        price=(float, Field(ge=0)),
    )
    shown = create_model(
        f"Item{number}Out",
        __base__=given,
        __config__=None,
        id=(int, ...),
        made=(datetime, ...),
        owner=(OwnerOut, ...),
    )
    shown.model_config = ConfigDict(from_attributes=True)
    shown.model_rebuild(force=True)
    return given, shown


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = create_engine(
        "sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool
    )
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        owner = Owner(name="owner")
        now = datetime.now(UTC)
        for item in TABLES:
            session.add_all(
                item(name=f"item {n}", price=n, made=now, owner=owner) for n in range(ROWS)
            )
        session.commit()
    app.state.engine = engine
    yield
    engine.dispose()


def add_routes(app: FastAPI, number: int, item: Any) -> None:
    given, shown = models(number)
    many: Any = list

    async def listed(limit: int = 20) -> Any:
        with Session(app.state.engine) as session:
            return session.scalars(select(item).order_by(item.price).limit(limit)).all()

    async def one(key: int) -> Any:
        with Session(app.state.engine) as session:
            found = session.get(item, key)
            if found is None:
                raise HTTPException(404)
            return found

    async def add(body: Any) -> Any:
        with Session(app.state.engine, expire_on_commit=False) as session:
            row = item(**body.model_dump(), made=datetime.now(UTC), owner=session.get(Owner, 1))
            session.add(row)
            session.commit()
            return row

    add.__annotations__["body"] = given
    app.get(f"/items/{number}", response_model=many[shown])(listed)
    app.get(f"/items/{number}/{{key}}", response_model=shown)(one)
    app.post(f"/items/{number}", response_model=shown)(add)


TABLES = [table(number) for number in range(RESOURCES)]
app = FastAPI(lifespan=lifespan)
for _number, _item in enumerate(TABLES):
    add_routes(app, _number, _item)


@app.get("/who")
async def who() -> int:
    await asyncio.sleep(0)
    return os.getpid()
