"""The engines that faults are done to: how each is started in both variants, and put jobs to.

An engine is one command, whose processes get the faults. What it needs besides itself (Redis, a
scheduler, a master) is left alone.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from matrix.engines import dask_node, spark_cluster
from matrix.engines.dask_node import SEALED_WORDS
from matrix.engines.engine import Place, Variant
from matrix.redis_server import redis_server
from pasture_tools.launch.ports import LOOPBACK, free_port

WORKERS = 3
_SEALED = ("-m", "pasture", "run")


@dataclass(frozen=True, slots=True)
class Start:
    """What a command of an engine is made from.

    Attributes:
        url: of what the engine needs besides itself.
        port: that a server of HTTP listens to.
        small: the folder that the engine lives in.
    """

    place: Place
    variant: Variant
    url: str
    port: int
    small: Path

    def run(self, *words: str, pasture: tuple[str, ...] = ()) -> list[str]:
        """A command of the environment, under `pasture run` in the sealed variant.

        Args:
            pasture: options of `pasture run`.
        """
        python = str(self.place.python)
        if self.variant == "sealed":
            return [python, *_SEALED, *pasture, *words]
        return [python, self.place.script(words[0]), *words[1:]]


@dataclass(frozen=True, slots=True)
class Kind:
    """An engine under faults.

    Attributes:
        command: starts it.
        client: module of `programs/` that puts numbered jobs; "" for a server of HTTP.
        service: what it needs besides itself; gives an address.
        packages: as of a row of `make engines`.
        reload: signal at which it begins again; None where it has none.
        small_size: of its file system.
        variables: of the engine and its client.
        sealed_client: variables of the client of the sealed variant.
    """

    name: str
    command: Callable[[Start], list[str]]
    client: str = ""
    service: Callable[[Place], AbstractContextManager[str]] = lambda _: contextlib.nullcontext("")
    packages: str = "queues"
    reload: int | None = None
    small_size: str = "16m"
    variables: Callable[[Place], Mapping[str, str]] = lambda _: {}
    sealed_client: Mapping[str, str] = field(default_factory=dict)


def _redis(place: Place) -> AbstractContextManager[str]:
    return redis_server(place.folder)


def _celery(start: Start) -> list[str]:
    return start.run("celery", "-A", "soak_celery", "worker", "-c", str(WORKERS), "-l", "WARNING")


def _rq(start: Start) -> list[str]:
    return start.run(
        "rq", "worker", "--quiet", "--url", start.url, pasture=("--preload", "soak_work")
    )


def _huey(start: Start) -> list[str]:
    return start.run("huey_consumer", "soak_huey.huey", "-k", "process", "-w", str(WORKERS), "-q")


def _dramatiq(start: Start) -> list[str]:
    return start.run("dramatiq", "--processes", str(WORKERS), "--threads", "1", "soak_dramatiq")


def _uwsgi(start: Start) -> list[str]:
    words = ["--http-socket", f"{LOOPBACK}:{start.port}", "--master", "--processes", str(WORKERS)]
    words += ["--module", "soak_wsgi:app", "--die-on-term", "--no-orphans", "--disable-logging"]
    if start.variant == "theirs":
        return [start.place.script("uwsgi"), *words]
    return start.run("uwsgi", *words)


def _gunicorn(start: Start) -> list[str]:
    bind = f"{LOOPBACK}:{start.port}"
    return start.run("gunicorn", "-w", str(WORKERS), "--bind", bind, "soak_wsgi:app")


def _hypercorn(start: Start) -> list[str]:
    bind = f"{LOOPBACK}:{start.port}"
    return start.run("hypercorn", "soak_asgi:app", "--bind", bind, "--workers", str(WORKERS))


def _granian(start: Start) -> list[str]:
    words = ["--interface", "asgi", "--port", str(start.port), "--workers", str(WORKERS)]
    return start.run("granian", *words, "soak_asgi:app")


def _uvicorn(start: Start) -> list[str]:
    words = ["--port", str(start.port), "--workers", str(WORKERS), "--no-access-log"]
    return start.run("uvicorn", *words, "soak_asgi:app")


def _dask(start: Start) -> list[str]:
    sealed = SEALED_WORDS if start.variant == "sealed" else ()
    return [*dask_node.node_command(start.place, start.url, WORKERS, start.small), *sealed]


def _spark(start: Start) -> list[str]:
    return spark_cluster.node_command(start.place, start.url, WORKERS, start.small)


KINDS: tuple[Kind, ...] = (
    Kind("celery", _celery, "soak_celery", _redis, reload=signal.SIGHUP),
    Kind("uwsgi", _uwsgi, packages="", reload=signal.SIGHUP),
    Kind("hypercorn", _hypercorn, packages="asgi"),
    Kind("granian", _granian, packages="asgi", reload=signal.SIGHUP),
    Kind("uvicorn", _uvicorn, packages="asgi", reload=signal.SIGHUP),
    Kind("gunicorn", _gunicorn, packages="", reload=signal.SIGHUP),
    Kind(
        "pyspark",
        _spark,
        "soak_spark",
        spark_cluster.master,
        packages="pyspark",
        small_size="256m",
        variables=spark_cluster.spark_environment,
        sealed_client={"SOAK_SEALED": "1"},
    ),
    Kind("dask", _dask, "soak_dask", dask_node.scheduler, packages="dask", small_size="64m"),
    Kind("rq", _rq, "soak_rq", _redis),
    Kind("huey", _huey, "soak_huey", _redis, reload=signal.SIGHUP),
    Kind("dramatiq", _dramatiq, "soak_dramatiq", _redis, reload=signal.SIGHUP),
)


@contextlib.contextmanager
def served(kind: Kind, place: Place) -> Iterator[tuple[str, int]]:
    """What an engine needs besides itself runs while the block does: its address, and a port."""
    with kind.service(place) as url:
        yield url, free_port()
