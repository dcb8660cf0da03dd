"""The servers that a trial can boot, by their names.

gunicorn preloads the application under each policy, and so under `stock`; `plain` is its own
command. uvicorn spawns workers, each of which loads it; under pasture they are forked. uWSGI, as
pyuwsgi, has a master that loads the application and forks, with pasture or without. It binds each
socket that any of its options names, and takes a Unix socket over from the server that listens
there. So a trial gives it no file of options, and no other socket than its own.

A new server is a `ServerFacts` here and an entry in the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from pasture.errors import UsageError
from pasture_tools.trial.servers.facts import (
    ONLY_GUNICORN,
    PLAIN,
    Phrases,
    ServerFacts,
    Start,
    called_without,
)

_WITH_CONTROL_SOCKET = 25, 1  # the first such version of gunicorn


def _gunicorn(start: Start) -> list[str]:
    """Socket and pid file come last: a configuration file may name a production server's."""
    own = ["--pid", str(start.folder / "pid")]
    if import_module("gunicorn").version_info >= _WITH_CONTROL_SOCKET:
        own += ["--control-socket", str(start.folder / "control")]
    return [
        *start.plain_or_by_pasture("gunicorn", "-m", "gunicorn", under=PLAIN),
        "--workers", str(start.workers), "--bind", start.address, *start.arguments, *own, start.app,
    ]  # fmt: skip


_GUNICORN = ServerFacts(
    name="gunicorn",
    install="gunicorn",
    command=_gunicorn,
    served_by=("{app}", "-w", "{workers}"),
    phrases=Phrases(
        not_found=re.compile(r"^(Failed to (?:find|parse) .*|No module named .*)$", re.MULTILINE),
        called_wrongly=called_without("send"),
        wrong_kind="the application is ASGI and the worker is WSGI",
        wrong_kind_hint="pasture try APP --server uvicorn; or choose a worker for ASGI: "
        "pasture try APP -- -k uvicorn_worker.UvicornWorker",
    ),
)

_BINDS = dict.fromkeys(("uds", "fd"), "a trial listens on an address of its own")
_RELOADS = dict.fromkeys(
    ("reload", "reload-dir", "reload-include", "reload-exclude", "reload-delay"),
    "uvicorn then runs one process, which has nothing to share",
)


def _uvicorn(start: Start) -> list[str]:
    return [
        *start.plain_or_by_pasture("uvicorn", "-m", "uvicorn"), *start.arguments,
        "--workers", str(start.workers), "--host", start.host, "--port", str(start.port), start.app,
    ]  # fmt: skip


_UVICORN = ServerFacts(
    name="uvicorn",
    install="pasture[uvicorn]",
    command=_uvicorn,
    served_by=("{app}", "--workers", "{workers}"),
    stock="stock is plain uvicorn: each worker is spawned and loads the application; under the "
    "other policies the parent loads it and forks the workers",
    stock_spawns=True,
    cannot=ONLY_GUNICORN,
    least_workers=2,
    refused={**_BINDS, **_RELOADS},
    variables="UVICORN_",
    phrases=Phrases(
        started="Started server process",
        worker_died=re.compile(r"Child process \[\d+\] died"),
        worker_died_hint="uvicorn ends a worker that does not answer in 5 s, for instance while it "
        "imports: pasture try APP --server uvicorn -- --timeout-worker-healthcheck 60",
        not_found=re.compile(r"(?:Error loading ASGI app\. )(.*)$", re.MULTILINE),
        start_failed="Application startup failed",
        called_wrongly=called_without(r"start\w*"),
        wrong_kind="the application is WSGI and uvicorn serves ASGI",
        wrong_kind_hint="pasture try APP --server gunicorn; or pasture try APP --server uvicorn "
        "-- --interface wsgi",
    ),
)

_PLAIN_UWSGI = "import sys, pyuwsgi; sys.exit(pyuwsgi.run(sys.argv[1:]))"
_PROTOCOLS = ("uwsgi", "http", "https", "fastcgi", "scgi", "raw", "puwsgi", "suwsgi", "http11")
_SOCKETS = (
    "socket", "s", *(f"{protocol}-socket" for protocol in _PROTOCOLS), "shared-socket",
    "undeferred-shared-socket", "ssl-socket", "http", "https", "https2", "httprouter", "sslrouter",
    "rawrouter", "fastrouter", "stats", "stats-server", "stats-http", "zerg", "zerg-server",
    "carbon", "subscribe-to", "udp", "snmp",
)  # fmt: skip
_FILES = ("pidfile", "pidfile2", "safe-pidfile", "safe-pidfile2", "master-fifo")
_OPTIONS = (
    "ini", "ini-paste", "ini-paste-logged", "paste", "xml", "x", "yaml", "yml", "y", "json", "j",
    "config", "config-py", "include", "inherit", "emperor", "load-file",
)  # fmt: skip
_BACKGROUND = ("daemonize", "daemonize2", "d")
_REFUSED = {
    **dict.fromkeys(_SOCKETS, "a trial listens only on its own socket"),
    **dict.fromkeys(_FILES, "it may be that of a server in production"),
    **dict.fromkeys(_OPTIONS, "a file of options may name sockets of a server in production"),
    **dict.fromkeys(_BACKGROUND, "a server in the background cannot be measured"),
}


def _uwsgi(start: Start) -> list[str]:
    return [
        *start.plain_or_by_pasture("uwsgi", "-c", _PLAIN_UWSGI), *start.arguments,
        # Without the last two it serves errors where the application does not load,
        # and starts again when it is asked to end.
        "--master", "--need-app", "--die-on-term", "--processes", str(start.workers),
        "--http-socket", start.address, "--module", start.app,
    ]  # fmt: skip


_UWSGI = ServerFacts(
    name="uwsgi",
    install="pasture[uwsgi]",
    command=_uwsgi,
    served_by=("--master", "--processes", "{workers}", "--module", "{app}"),
    stock="stock is plain uWSGI, whose master loads the application and forks",
    cannot=ONLY_GUNICORN,
    silent_errors=True,
    refused=_REFUSED,
    refused_word=re.compile(r"\.(ini|xml|ya?ml|json?|sqlite3?|conf)\Z|\A\[", re.IGNORECASE),
    variables="UWSGI_",
    phrases=Phrases(
        not_found=re.compile(r"^(unable to (?:find|load) .*)$", re.MULTILINE),
        called_wrongly=called_without("send"),
        wrong_kind="the application is ASGI and uWSGI serves WSGI",
        wrong_kind_hint="pasture try APP --server uvicorn",
    ),
)

SERVERS: Mapping[str, ServerFacts] = MappingProxyType(
    {facts.name: facts for facts in (_GUNICORN, _UVICORN, _UWSGI)}
)
"""All servers by name; the first is the default."""


def find_server(name: str) -> ServerFacts:
    """Facts of a server. UsageError for an unknown name."""
    if name not in SERVERS:
        raise UsageError(
            f"a trial cannot start the server {name!r}", hint=f"known are {', '.join(SERVERS)}"
        )
    return SERVERS[name]
