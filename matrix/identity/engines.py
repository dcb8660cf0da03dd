"""How the zoo is started: a row an engine, a command for each mode, and what has its workers write.

Modes are `plain`, `run` (`pasture run`), `seal` (`PASTURE=seal`), `warm` (a warm-up), `auto` (a
file that names the late import) and `refork`. Everything listens on loopback alone, and has
ended when a run returns.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.engines.environments import python_for
from matrix.redis_server import redis_server
from pasture.learning import file as learned
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group, environment

PROGRAMS = Path(__file__).with_name("programs")
WORKERS = 2
TIMEOUT_S = 180.0
WEB = ("plain", "run", "seal", "warm", "auto")
QUEUE = ("plain", "run", "seal", "auto")
REFORKED = "all workers are of generation 1"

Found = list[Mapping[str, Mapping[str, Any]]]
"""What each worker has, by moment and name."""


@dataclass(frozen=True)
class Start:
    """One start of an engine.

    Attributes:
        engine: its name.
        mode: how.
        folder: of its log, and of what workers write.
        python: interpreter of its environment.
        port: for it to listen on.
        broker: address of Redis; "" for engines without one.
    """

    engine: str
    mode: str
    folder: Path
    python: Path
    port: int
    broker: str = ""

    @property
    def out(self) -> Path:
        return self.folder / "zoo.jsonl"

    @property
    def learned(self) -> Path:
        return self.folder / "zoo.auto"

    def command(self, program: str, *words: str, preload: str = "") -> list[str]:
        """A program of the environment's, by its name, in this mode."""
        if self.mode in ("plain", "seal"):
            return [str(self.python.with_name(program)), *words]
        options = ["--preload", preload] if preload else []
        options += {
            "warm": ["--warm", "/"],
            "auto": [f"--auto={self.learned}"],
            "refork": ["--refork", "2"],
        }.get(self.mode, [])
        return [str(self.python), "-m", "pasture", "run", *options, program, *words]

    def environ(self, preload: str = "") -> Mapping[str, str]:
        named = {"PASTURE": "seal", "PASTURE_PRELOAD": preload} if self.mode == "seal" else {}
        return environment(
            {
                "PYTHONPATH": str(PROGRAMS),
                "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
                "ZOO_OUT": str(self.out),
                "ZOO_ENGINE": self.engine,
                "ZOO_BROKER": self.broker,
                **{name: value for name, value in named.items() if value},
            }
        )

    def written(self) -> Found:
        """What workers have written up to now."""
        with suppress(FileNotFoundError):
            return [json.loads(line)["values"] for line in self.out.read_text().splitlines()]
        return []


@dataclass(frozen=True)
class Engine:
    """A row.

    Attributes:
        command: of one start.
        ask: has workers write; called until enough of them have. None: the program ends by itself.
        modes: in which it is started.
        environment: table of packages.toml; "" is that of the tests.
        preload: modules that `--preload` or the variable names, where the engine knows none.
        needs_redis: it has a broker.
    """

    name: str
    command: Callable[[Start], list[str]]
    ask: Callable[[Start], object] | None
    modes: tuple[str, ...]
    environment: str = ""
    preload: str = ""
    needs_redis: bool = False

    def run(self, mode: str, folder: Path) -> Found:
        """Start it, and have two of its workers write what they have."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        with self._broker(folder) as broker:
            start = Start(
                self.name, mode, folder, python_for(self.environment), free_port(), broker
            )
            learned.write(start.learned, {"module zoo_late": learned.NEW})
            return self._run(start)

    @contextmanager
    def _broker(self, folder: Path) -> Iterator[str]:
        if not self.needs_redis:
            yield ""
            return
        with redis_server(folder) as address:
            yield address

    def _run(self, start: Start) -> Found:
        environ = start.environ(self.preload)
        command = self.command(start)
        log = start.folder / "log"
        with Group(command, log=log, env=environ, cwd=start.folder) as group:
            if self.ask is None:
                group.wait(TIMEOUT_S)
            else:
                self._ask_until_written(start, group)
            found = start.written()
        assert len(found) >= WORKERS, group.log
        if start.mode != "plain":
            assert "policy seal on" in group.log or "policy refork on" in group.log, group.log
        return found[:WORKERS] if self.name != "rq" else found[-WORKERS:]

    def _ask_until_written(self, start: Start, group: Group) -> None:
        assert self.ask is not None
        deadline = time.monotonic() + TIMEOUT_S
        while len(start.written()) < WORKERS:
            assert group.exit_code() is None, group.log
            assert time.monotonic() < deadline, group.log
            if start.mode == "refork" and REFORKED not in group.log:
                _get(start, "/")
            else:
                self.ask(start)
            time.sleep(0.05)


def _get(start: Start, path: str) -> None:
    with suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{start.port}{path}", timeout=30).read()


def _take(start: Start) -> None:
    _get(start, "/take")


def _put(start: Start) -> None:
    subprocess.run(
        [str(start.python), "-m", "zoo_jobs", "3"],
        env={**start.environ(), "PASTURE": ""},
        cwd=start.folder,
        check=True,
        timeout=TIMEOUT_S,
    )
    time.sleep(1.0)


def _gunicorn(*options: str) -> Callable[[Start], list[str]]:
    def command(start: Start) -> list[str]:
        bind = f"127.0.0.1:{start.port}"
        words = ("--bind", bind, "--workers", str(WORKERS), "--timeout", "120", *options)
        return start.command("gunicorn", *words)

    return command


def _uvicorn(start: Start) -> list[str]:
    return start.command(
        "uvicorn", "zoo_app:asgi", "--workers", str(WORKERS), "--port", str(start.port)
    )


def _hypercorn(start: Start) -> list[str]:
    words = ("zoo_app:asgi", "--workers", str(WORKERS), "--bind", f"127.0.0.1:{start.port}")
    return start.command("hypercorn", *words)


def _granian(start: Start) -> list[str]:
    words = ("--interface", "asgi", "--workers", str(WORKERS), "--port", str(start.port))
    return start.command("granian", *words, "zoo_app:asgi")


def _uwsgi(start: Start) -> list[str]:
    address = f"127.0.0.1:{start.port}"
    words = ("--http-socket", address, "--master", "--processes", str(WORKERS), "--need-app")
    return start.command("uwsgi", *words, "--module", "zoo_app:app")


def _celery(start: Start) -> list[str]:
    words = ("worker", "--concurrency", str(WORKERS), "--loglevel", "info")
    return start.command("celery", "-A", "zoo_jobs", *words)


def _rq(start: Start) -> list[str]:
    return start.command("rq", "worker", "--url", start.broker, preload="zoo_jobs")


def _huey(start: Start) -> list[str]:
    words = ("zoo_jobs.huey", "-k", "process", "-w", str(WORKERS))
    return start.command("huey_consumer", *words)


def _dramatiq(start: Start) -> list[str]:
    return start.command("dramatiq", "zoo_jobs", "--processes", str(WORKERS), "--threads", "1")


def _program(name: str, *words: str) -> Callable[[Start], list[str]]:
    def command(start: Start) -> list[str]:
        sealed = () if start.mode == "plain" else ("sealed",)
        script = str(PROGRAMS / name)
        if start.mode in ("run", "auto"):
            return start.command("--", "python", script, *words, *sealed)
        return [str(start.python), script, *words, *sealed]

    return command


def _dask(start: Start) -> list[str]:
    runner = str(PROGRAMS / "zoo_dask.py")
    sealed = () if start.mode == "plain" else ("--preload-nanny", "pasture.servers.dask")
    return [str(start.python), runner, str(WORKERS), *sealed]


def _spark(start: Start) -> list[str]:
    runner = str(PROGRAMS / "zoo_spark.py")
    daemon = (
        () if start.mode == "plain" else ("spark.python.daemon.module=pasture.servers.pyspark",)
    )
    return [str(start.python), runner, str(WORKERS), *daemon]


ENGINES = {
    row.name: row
    for row in (
        Engine("gunicorn", _gunicorn("zoo_app:app"), _take, (*WEB, "refork")),
        Engine("gunicorn --preload", _gunicorn("--preload", "zoo_app:app"), _take, WEB),
        Engine(
            "gunicorn with threads",
            _gunicorn("--worker-class", "gthread", "--threads", "2", "zoo_app:app"),
            _take,
            WEB,
        ),
        Engine("uvicorn", _uvicorn, _take, WEB),
        Engine("hypercorn", _hypercorn, _take, WEB, "identity"),
        Engine("granian", _granian, _take, WEB, "identity"),
        Engine("uwsgi", _uwsgi, _take, tuple(mode for mode in WEB if mode != "seal")),
        Engine("celery", _celery, _put, QUEUE, needs_redis=True),
        Engine("rq", _rq, _put, QUEUE, "identity", "zoo_jobs", needs_redis=True),
        Engine("huey", _huey, _put, QUEUE, "identity", needs_redis=True),
        Engine("dramatiq", _dramatiq, _put, QUEUE, "identity", needs_redis=True),
        Engine("dask", _dask, None, ("plain", "seal"), "identity", "zoo"),
        Engine("pyspark", _spark, None, ("plain", "seal"), "pyspark", "zoo"),
        Engine("pool that forks", _program("zoo_pool.py", "fork"), None, ("plain", "run", "seal")),
        Engine("forkserver", _program("zoo_pool.py", "forkserver"), None, ("plain", "run", "seal")),
        Engine("os.fork", _program("zoo_fork.py"), None, ("plain", "run", "seal")),
    )
}
