"""The engines that pasture seals: one row each. A new engine is a row here and a module next to it.

The last rows are servers that do not fork; pasture logs that there is nothing to share. The start
file of `pasture[auto]` executes this module in every interpreter with the variable, so it imports
nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Serves = Literal["", "web", "asgi"]


class Row:
    """An engine. Its name is its program's, as for `pasture run`, or the library's."""

    module: str  # imported to seal it, or run in place of its program; by default named after it
    is_program = True  # `pasture run` starts it
    # Module whose import shows that a program is this engine, or `os.fork`; "" if `PASTURE=seal`
    # alone cannot seal it. The first of two rows with the same module seals.
    seen_by = ""
    package: str  # imported for it; "" for none; by default its name
    imports: tuple[str, ...]  # packages that its modules may import, besides the standard library
    installed_by: str  # what pip installs for it
    on_path = False  # a program on the PATH replaces a missing package
    serves: Serves = ""  # "asgi" for ASGI only, "web" for any web requests, "" for none
    lifespans: tuple[str, ...] = ()  # values of `--lifespan` besides `each` that it knows
    # Part of the path of a library in which the main thread of a worker waits for a lock, idle or
    # busy, while other threads serve; "" where an idle one waits for connections.
    idle_in = ""
    replaces_workers = False  # its workers, when their private memory has passed a limit
    reforks = False  # its workers can become the parents of the next ones
    guide = ""  # its page under docs/

    def __init__(self, name: str, *, module: str = "", **given: object) -> None:
        assert set(given) <= set(Row.__annotations__) | set(vars(Row)), given
        self.name = name
        self.module = f"pasture.servers.{module or name}"
        self.package = name
        vars(self).update(given)
        self.__dict__.setdefault("imports", (self.package,))
        self.__dict__.setdefault("installed_by", self.package or name)


_ROWS = (
    Row(
        "gunicorn",
        seen_by="gunicorn.app.base",
        imports=("gunicorn", "gevent", "greenlet"),
        installed_by="pasture[gunicorn]",
        serves="web",
        lifespans=("warm-up", "once"),
        replaces_workers=True,
        reforks=True,
        guide="gunicorn.md",
    ),
    Row(
        "uwsgi",
        package="pyuwsgi",
        imports=("uwsgi", "pyuwsgi"),
        installed_by="pasture[uwsgi]",
        on_path=True,
        serves="web",
        replaces_workers=True,
        guide="uwsgi.md",
    ),
    Row(
        "celery",
        seen_by="celery.apps.worker",
        imports=("celery", "billiard"),
        installed_by="pasture[celery]",
        replaces_workers=True,
        guide="queues.md",
    ),
    Row(
        "uvicorn",
        seen_by="uvicorn.main",
        imports=("uvicorn", "fastapi_cli"),
        installed_by="pasture[uvicorn]",
        serves="asgi",
        lifespans=("warm-up", "once"),
        replaces_workers=True,
        guide="uvicorn.md",
    ),
    Row(
        "fastapi",
        module="uvicorn.fastapi",
        seen_by="uvicorn.main",
        package="fastapi_cli",
        installed_by="fastapi[standard]",
        serves="asgi",
        lifespans=("warm-up", "once"),
        replaces_workers=True,
        guide="uvicorn.md",
    ),
    Row(
        "hypercorn",
        seen_by="hypercorn.run",
        serves="asgi",
        lifespans=("warm-up",),
        guide="uvicorn.md",
    ),
    Row(
        "granian",
        seen_by="granian.server.mp",
        idle_in="/granian/",
        serves="asgi",
        lifespans=("warm-up",),
        guide="uvicorn.md",
    ),
    Row("rq", seen_by="rq.worker", guide="queues.md"),
    Row("dramatiq", seen_by="dramatiq.cli", installed_by="dramatiq[redis]", guide="queues.md"),
    Row("huey_consumer", module="huey", seen_by="huey.consumer", package="huey", guide="queues.md"),
    Row("python", module="script", package="", guide="multiprocessing.md"),
    Row("pyspark", is_program=False, guide="clusters.md"),
    Row("dask", is_program=False, imports=("dask", "distributed"), guide="clusters.md"),
    Row("multiprocessing", module="process_start", is_program=False, seen_by="os.fork", package=""),
    Row(
        "forkserver",
        module="forkserver",
        is_program=False,
        seen_by="multiprocessing.forkserver",
        package="",
    ),
    # These do not fork: the log names a server that does.
    *(
        Row(name, module=f"one_process.{name}", is_program=False, seen_by=seen_by)
        for name, seen_by in (
            ("waitress", "waitress.server"),
            ("cheroot", "cheroot.server"),
            ("daphne", "daphne.server"),
            ("aiohttp", "aiohttp.web"),
        )
    ),
)

ENGINES: Mapping[str, Row] = {row.name: row for row in _ROWS}
"""All rows, by name."""

ASGI = tuple(row.name for row in _ROWS if row.serves == "asgi")
WEB = tuple(row.name for row in _ROWS if row.serves)
"""Names of the engines that serve only ASGI applications, and of those that serve any requests."""
