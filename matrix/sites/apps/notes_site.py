"""Notes in PostgreSQL, counted in Redis, all clients in module globals, as tutorials show it."""

import asyncio
import os
from contextlib import asynccontextmanager

import httpx
import redis.asyncio
from fastapi import FastAPI, HTTPException
from sqlalchemy import String, delete, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = create_async_engine(
    os.environ["POSTGRES_URL"].replace("postgresql://", "postgresql+asyncpg://"), pool_size=3
)
Session = async_sessionmaker(engine, expire_on_commit=False)
cache = redis.asyncio.from_url(os.environ["REDIS_URL"])
client = httpx.AsyncClient()
turn = asyncio.Lock()
waiting = asyncio.Queue()
slots = asyncio.Semaphore(2)


class Base(DeclarativeBase):
    """Tables."""


class Note(Base):
    """A note."""

    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(String(200))


@asynccontextmanager
async def lifespan(app):
    """Makes the table, and states what the application lives by."""
    async with turn, engine.begin() as connection:
        await connection.exec_driver_sql("SELECT pg_advisory_xact_lock(1)")
        await connection.run_sync(Base.metadata.create_all)
    app.state.alive = True
    task = asyncio.create_task(work())
    yield
    task.cancel()
    app.state.alive = False


application = FastAPI(lifespan=lifespan)


async def work():
    """Count what is put into the queue."""
    while True:
        name = await waiting.get()
        await cache.incr(name)


@application.get("/health")
async def health():
    """Whether the lifespan is under way."""
    return {"alive": getattr(application.state, "alive", False)}


@application.get("/notes")
async def read():
    """All notes, one reader at a time, each read counted."""
    async with slots, turn, Session() as session:
        found = (await session.scalars(select(Note).order_by(Note.id))).all()
    await waiting.put("reads")
    return [note.text for note in found]


@application.get("/count")
async def count():
    """Rows and reads."""
    async with Session() as session:
        rows = await session.scalar(select(func.count(Note.id)))
    return {"rows": rows, "made": int(await cache.get("made") or 0)}


@application.post("/notes", status_code=201)
async def write(text: str):
    """A new note; two at once in one transaction each."""
    if not text:
        raise HTTPException(422, "no text")
    async with Session() as session:
        session.add(Note(text=text))
        await session.commit()
    return {"made": await cache.incr("made")}


@application.delete("/notes")
async def clear():
    """Remove all notes."""
    async with Session() as session:
        done = await session.execute(delete(Note))
        await session.commit()
    return {"removed": done.rowcount}


@application.get("/outside")
async def outside(url: str):
    """Ask another server."""
    return {"status": (await client.get(url)).status_code}
