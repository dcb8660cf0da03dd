"""`pasture run SERVER ARGS`: a server command with its heap sealed before each fork.

Owns arguments only. The server replaces this process, so that neither the command line's
packages nor its frames are in the heap that is sealed.
"""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from pasture.errors import MissingExtra, UsageError
from pasture.servers.setting import Setting
from pasture.servers.settings import SETTINGS, read_environment, to_environment

SERVERS: Mapping[str, str] = MappingProxyType(
    {
        "gunicorn": "pasture.servers.gunicorn",
        "uwsgi": "pasture.servers.uwsgi",
        "celery": "pasture.servers.celery",
        "uvicorn": "pasture.servers.uvicorn",
        "fastapi": "pasture.servers.uvicorn.fastapi",
        "hypercorn": "pasture.servers.hypercorn",
        "granian": "pasture.servers.granian",
        "rq": "pasture.servers.rq",
        "dramatiq": "pasture.servers.dramatiq",
        "huey_consumer": "pasture.servers.huey",
        "python": "pasture.servers.script",
    }
)
"""Module that is run in place of a server's own program, by the program's name."""

_PACKAGES: Mapping[str, str] = MappingProxyType(
    {"uwsgi": "pyuwsgi", "fastapi": "fastapi_cli", "huey_consumer": "huey"}
)
"""What is imported for a server, where that is not called as its program."""

_PROGRAMS = frozenset(("uwsgi",))
"""Servers whose own program on the PATH is run where their package is not installed."""

_INSTALLED_BY: Mapping[str, str] = MappingProxyType(
    {
        "fastapi": "fastapi[standard]",
        "hypercorn": "hypercorn",
        "granian": "granian",
        "rq": "rq",
        "dramatiq": "dramatiq[redis]",
        "huey_consumer": "huey",
    }
)
"""What brings a server, where that is no extra of pasture's."""

_SERVING_ASGI = ("gunicorn", "uvicorn", "fastapi")
_WARMING_ASGI = (*_SERVING_ASGI, "hypercorn", "granian")

_REPLACE_WORKERS = frozenset(("gunicorn", "uwsgi", "celery", "uvicorn", "fastapi"))
"""Servers that replace a worker whose private memory has passed a limit."""

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def _option(row: Setting) -> click.Option:
    """The option of a setting. What is not given is None or empty, so that it sets no variable."""
    kind = click.Choice(row.takes) if isinstance(row.takes, tuple) else row.takes
    return click.Option(
        [row.option, row.name],
        type=click.Path(path_type=Path) if kind is Path else kind,
        is_flag=kind is bool,
        multiple=row.repeats,
        default=None,
        metavar=row.metavar or None,
        help=row.help,
    )


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    params=[_option(row) for row in SETTINGS.values() if row.option],
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="SERVER ARGS")
def command(command: tuple[str, ...], **options: Any) -> None:
    """Run a pre-fork server with its heap sealed before each fork.

    SERVER ARGS is the server's own command, as in

        pasture run gunicorn mysite.wsgi -w 8

    The application is preloaded. Supported servers: gunicorn, uwsgi, celery,
    uvicorn, fastapi, hypercorn and granian with --workers; queues: rq, dramatiq,
    huey_consumer; and any program that forks with os.fork, as in

        pasture run -- python app.py
    """
    given = {name: raw for name, raw in options.items() if raw not in (None, ())}
    _check(given)
    name = _server_name(command[0])
    _check_server(name, given)
    variables = to_environment(**given)
    # A bare `python` is the one that pasture is installed for.
    python = command[0] if name == "python" and os.sep in command[0] else sys.executable
    _replace_this_process(python, SERVERS[name], command[1:], variables)


def _check(given: Mapping[str, Any]) -> None:
    """Read options as the server will: a mistake can still be shown as one of the command line."""
    whole = {}
    for name, raw in given.items():
        check = SETTINGS[name].check
        if check is None:
            whole[name] = raw
            continue
        for each in raw if isinstance(raw, tuple) else (raw,):
            check(each)
    read_environment({}, **whole)


def _check_server(name: str, given: Mapping[str, Any]) -> None:
    """Refuse options that a server has no use for."""
    lifespan = given.get("lifespan")
    if given.get("after") and name != "python":
        raise UsageError(f"--after is of no use to {name}", hint="it preloads by itself")
    if "max_uss" in given and name not in _REPLACE_WORKERS:
        raise UsageError(f"{name} has no way to replace a worker", hint="leave --max-uss out")
    if "refork" in given and name != "gunicorn":
        raise UsageError(f"{name} cannot refork", hint="only gunicorn can")
    if lifespan == "warm-up" and name not in _WARMING_ASGI:
        raise UsageError(
            f"--lifespan warm-up is of no use to {name}",
            hint=f"known are {', '.join(_WARMING_ASGI)}",
        )
    if lifespan == "once" and (name not in _SERVING_ASGI or "refork" in given):
        raise UsageError(
            f"--lifespan once is of no use to {name}",
            hint=f"known are {', '.join(_SERVING_ASGI)}, without --refork",
        )


def _server_name(program: str) -> str:
    """The name under which a program is known here, once it can be started."""
    name = Path(program).name.removesuffix(".py")
    if _PYTHON.fullmatch(name):
        return "python"
    if name not in SERVERS:
        raise UsageError(
            f"{program!r} is no server that pasture knows",
            hint=f"known are {', '.join(SERVERS)}; a Python program of your own: "
            "pasture run -- python app.py",
        )
    package = _PACKAGES.get(name, name)
    is_program = name in _PROGRAMS and shutil.which(name) is not None
    if not is_program and importlib.util.find_spec(package) is None:
        bringing = _INSTALLED_BY.get(name, f"pasture[{name}]")
        raise MissingExtra(f"{package} is not installed", hint=f"pip install '{bringing}'")
    return name


def _replace_this_process(
    python: str, module: str, arguments: Sequence[str], variables: Mapping[str, str]
) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, [python, "-m", module, *arguments], {**os.environ, **variables})
