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
from pasture.sealing.policy import DEFAULT_POLICY, POLICIES
from pasture.servers.fork_hook import AFTER
from pasture.servers.recycle import DEFAULT_JITTER
from pasture.servers.settings import (
    LIFESPANS,
    MAX_USS_JITTER,
    PROBE_FAILURES,
    PROBE_S,
    PROBE_TIMEOUT,
    WARM_FILE,
    read_environment,
    to_environment,
)
from pasture.warmup.guard import STEP_S, TOTAL_S
from pasture.warmup.lazy_imports import DEFAULT_PATTERNS, parse_patterns
from pasture.warmup.requests import parse_header, parse_request

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


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--policy",
    metavar="NAME",
    help=f"What is done to the heap: {', '.join(POLICIES)}.  [default: {DEFAULT_POLICY}]",
)
@click.option(
    "--warm",
    "urls",
    multiple=True,
    metavar="[METHOD] URL",
    help="Request to serve before the fork, a path or a full URL; repeat for more.",
)
@click.option(
    "--warm-file",
    type=click.Path(path_type=Path),
    help="File with one [METHOD] URL, or 'Name: value' for a header, a line.",
)
@click.option(
    "--warm-header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header of each of these requests; repeat for more.",
)
@click.option(
    "--warm-timeout",
    type=float,
    metavar="SECONDS",
    help=f"For each of these requests; 0 for no limit.  [default: {STEP_S:g}]",
)
@click.option(
    "--warm-total-timeout",
    type=float,
    metavar="SECONDS",
    help=f"For all of them; what is left then is not served.  [default: {TOTAL_S:g}]",
)
@click.option(
    "--lazy-imports",
    metavar="PATTERNS",
    help="Pending lazy imports (CPython 3.15) to make before the fork, as in "
    f"'stdlib,mysite.*,!mysite.reports'; '' for none.  [default: {DEFAULT_PATTERNS}]",
)
@click.option(
    "--preload",
    default="",
    metavar="MODULES",
    help="Modules to import before the fork, as in my_tasks,my_models.",
)
@click.option(
    "--once/--again",
    default=None,
    help="Seal before the first fork alone, or again when much was loaded since.  "
    "[default: once for parents that work themselves, as rq's]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="End rather than fork unsealed, or with what a fork breaks: threads, connections.",
)
@click.option(
    "--max-uss",
    metavar="SIZE",
    help="Replace a worker of a server whose private memory passes this, as in 200M.",
)
@click.option(
    "--max-uss-jitter",
    type=float,
    metavar="FRACTION",
    help=f"By how much a worker's own limit may be lower.  [default: {DEFAULT_JITTER}]",
)
@click.option(
    "--refork",
    metavar="REQUESTS",
    help="Of gunicorn: after so many requests a worker becomes the next parent, by generation, "
    "as in 50,500,2000.",
)
@click.option(
    "--lifespan",
    type=click.Choice(LIFESPANS),
    help="Who starts an ASGI application: each worker; the same, and the parent around the "
    "warm-up; or once the parent, whose state all workers share.  [default: each]",
)
@click.option(
    "--probe/--no-probe",
    default=True,
    help="Before any worker serves, send the warm-up's GET requests to a process that is forked "
    "as a worker is, and compare the answers.  [default: probe]",
)
@click.option(
    "--probe-lifespan/--no-probe-lifespan",
    default=True,
    help="Start and end an ASGI application in that process.  [default: probe-lifespan]",
)
@click.option(
    "--probe-timeout",
    type=float,
    metavar="SECONDS",
    help=f"For all of the probe.  [default: {PROBE_S:g}]",
)
@click.option(
    "--probe-failure",
    type=click.Choice(PROBE_FAILURES),
    help="How to start if the answers differ: without the warm-up, or else without pasture; "
    f"without pasture; not at all; as it is.  [default: {PROBE_FAILURES[0]}]",
)
@click.option(
    "--after",
    default="",
    metavar="MODULE[:NAME]",
    help="Of python: no seal before this module is imported, or this name in it set.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="SERVER ARGS")
def command(
    urls: tuple[str, ...],
    headers: tuple[str, ...],
    warm_file: Path | None,
    strict: bool,
    max_uss_jitter: float | None,
    after: str,
    lazy_imports: str | None,
    lifespan: str | None,
    once: bool | None,
    probe: bool,
    probe_lifespan: bool,
    probe_timeout: float | None,
    probe_failure: str | None,
    command: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a pre-fork server with its heap sealed before each fork.

    SERVER ARGS is the server's own command, as in

        pasture run gunicorn mysite.wsgi -w 8

    The application is preloaded. Supported servers: gunicorn, uwsgi, celery,
    uvicorn, fastapi, hypercorn and granian with --workers; queues: rq, dramatiq,
    huey_consumer; and any program that forks with os.fork, as in

        pasture run -- python app.py
    """
    # Read here as the server will read it: a mistake can still be shown as one of the command line.
    for url in urls:
        parse_request(url)
    for header in headers:
        parse_header(header)
    others = {
        WARM_FILE: "" if warm_file is None else str(warm_file),
        MAX_USS_JITTER: "" if max_uss_jitter is None else str(max_uss_jitter),
        PROBE_TIMEOUT: "" if probe_timeout is None else str(probe_timeout),
    }
    read_environment(others, **options)
    parse_patterns(lazy_imports or "")
    name = _server_name(command[0])
    if after and name != "python":
        raise UsageError(f"--after is of no use to {name}", hint="it preloads by itself")
    if options["max_uss"] and name not in _REPLACE_WORKERS:
        raise UsageError(f"{name} has no way to replace a worker", hint="leave --max-uss out")
    if options["refork"] is not None and name != "gunicorn":
        raise UsageError(f"{name} cannot refork", hint="only gunicorn can")
    if lifespan == "warm-up" and name not in _WARMING_ASGI:
        raise UsageError(
            f"--lifespan warm-up is of no use to {name}",
            hint=f"known are {', '.join(_WARMING_ASGI)}",
        )
    if lifespan == "once" and (name not in _SERVING_ASGI or options["refork"] is not None):
        raise UsageError(
            f"--lifespan once is of no use to {name}",
            hint=f"known are {', '.join(_SERVING_ASGI)}, without --refork",
        )
    variables = to_environment(
        warm=(*urls, *headers),
        warm_file=warm_file,
        strict=strict,
        max_uss_jitter=max_uss_jitter,
        lazy_imports=lazy_imports,
        lifespan=lifespan,
        once=once,
        probe=probe,
        probe_lifespan=probe_lifespan,
        probe_timeout=probe_timeout,
        probe_failure=probe_failure,
        **options,
    )
    if after:
        variables[AFTER] = after
    # A bare `python` is the one that pasture is installed for.
    python = command[0] if name == "python" and os.sep in command[0] else sys.executable
    _replace_this_process(python, SERVERS[name], command[1:], variables)


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
