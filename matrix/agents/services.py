"""What agents talk to besides the sink: Redis, PostgreSQL, and servers in the agent's environment.

Each is started for one boot, on the loopback, and hands out what it has taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from matrix.agents.sink import LOOPBACK
from matrix.environments import REPOSITORY
from matrix.redis_server import redis_server
from pasture.errors import ServerFailed
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group, environment

START_S = 60.0
_OTHER_USER = 65534


@dataclass(frozen=True, slots=True)
class Service:
    """One that runs.

    Attributes:
        variables: where it is, for the recipe.
        read: what it has taken so far, a message each.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[], Iterable[bytes]] | None = None


@contextmanager
def service(name: str, python: Path, folder: Path) -> Iterator[Service]:
    """Start what a row of agents.toml needs.

    Args:
        name: "redis", "postgres", "" for nothing, or a module: of recipes/, or by its full name.
        python: of the agent's environment.

    Raises:
        ServerFailed: it cannot be had here, or does not start.
    """
    if not name:
        yield Service()
    elif name == "redis":
        with redis_server(folder) as url:
            yield Service({"REDIS_URL": url}, lambda: _list(url))
    elif name == "postgres":
        with _postgres(folder) as url:
            yield Service({"POSTGRES_URL": url}, lambda: _select(url))
    else:
        with _helper(name, python, folder) as address:
            arrived = folder / "arrived"
            yield Service({"HELPER_ADDRESS": address}, lambda: arrived.read_bytes().splitlines())


def _list(url: str) -> list[bytes]:
    import redis

    found: list[bytes] = redis.Redis.from_url(url).lrange("marks", 0, -1)  # type: ignore[assignment]
    return found


@contextmanager
def _helper(module: str, python: Path, folder: Path) -> Iterator[str]:
    full_name = module if "." in module else f"matrix.agents.recipes.{module}"
    command = [str(python), "-m", full_name, str(folder)]
    env = environment({"PYTHONPATH": str(REPOSITORY)})
    with Group(command, log=folder / f"{module}.log", env=env, cwd=REPOSITORY) as group:
        address = folder / "address"
        group.wait_for(address.exists, f"{module} does not start", timeout_s=START_S)
        yield address.read_text()


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    """A cluster of its own. PostgreSQL refuses root, so root runs it as another user."""
    initdb, postgres = _of_postgres("initdb"), _of_postgres("postgres")
    if initdb is None or postgres is None or shutil.which("psql") is None:
        raise ServerFailed(
            "PostgreSQL is not installed", hint="put initdb and postgres on the PATH"
        )
    as_other_user = []
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    if os.getuid() == 0:
        ids = (f"--reuid={_OTHER_USER}", f"--regid={_OTHER_USER}")
        as_other_user = ["setpriv", *ids, "--clear-groups"]
        os.chown(data, _OTHER_USER, _OTHER_USER)
        folder.chmod(0o711)
    port = free_port()
    made = [*as_other_user, initdb, "--no-sync", "-A", "trust", "-U", "marks", "-D", str(data)]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/")
    serve = [*as_other_user, postgres, "-D", str(data), "-F", "-k", "", "-p", str(port)]
    serve += ["-c", f"listen_addresses={LOOPBACK}"]
    url = f"postgresql://marks@{LOOPBACK}:{port}/postgres"
    with Group(serve, log=folder / "postgres.log", cwd=Path("/")) as group:
        group.wait_for(
            lambda: "ready to accept" in group.log, "PostgreSQL does not start", timeout_s=START_S
        )
        _psql(url, "CREATE TABLE marks (mark text)")
        yield url


def _of_postgres(name: str) -> str | None:
    """A program of PostgreSQL's: on the PATH, or where Debian has its newest version."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(versions[-1]) if versions else None)


def _select(url: str) -> list[bytes]:
    return _psql(url, "SELECT mark FROM marks").splitlines()


def _psql(url: str, statement: str) -> bytes:
    command = ["psql", "--no-psqlrc", "-At", "-c", statement, url]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
