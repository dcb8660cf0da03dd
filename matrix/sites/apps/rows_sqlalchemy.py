"""Rows behind Flask, out of an engine of SQLAlchemy's with a pool."""

import rows
from rows_flask import application
from sqlalchemy import Column, Integer, String, create_engine, delete, select
from sqlalchemy.orm import declarative_base, sessionmaker
from sqlalchemy.pool import QueuePool

__all__ = ["application"]

engine = create_engine(
    f"sqlite:///{rows.FILE}",
    poolclass=QueuePool,
    connect_args={"timeout": 30, "check_same_thread": False},
)
Session = sessionmaker(engine)
Base = declarative_base()


class Row(Base):
    """A row."""

    __tablename__ = "texts"
    id = Column(Integer, primary_key=True)
    text = Column(String(100))


Base.metadata.create_all(engine)


def read():
    """All texts, in order."""
    with Session() as session:
        return [row.text for row in session.execute(select(Row).order_by(Row.id)).scalars()]


def write(text):
    """A new row."""
    with Session.begin() as session:
        session.add(Row(text=text))


def clear():
    """No row is left."""
    with Session.begin() as session:
        session.execute(delete(Row))


rows.read, rows.write, rows.clear = read, write, clear
