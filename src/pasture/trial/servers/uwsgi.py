"""uWSGI, as pyuwsgi: its master loads the application and forks, with pasture or without.

uWSGI binds each socket that any of its options names, and takes a Unix socket over from the server
that listens there. So a trial gives it no file of options, and no other socket than its own.
"""

from __future__ import annotations

import re

from pasture.trial.servers.facts import (
    NO_REFORK,
    Phrases,
    ServerFacts,
    Start,
    called_without,
)

_PLAIN = "import sys, pyuwsgi; sys.exit(pyuwsgi.run(sys.argv[1:]))"
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
    **dict.fromkeys(_SOCKETS, "a trial listens on a socket of its own alone"),
    **dict.fromkeys(_FILES, "it may be that of a server in production"),
    **dict.fromkeys(_OPTIONS, "a file of options may name sockets of a server in production"),
    **dict.fromkeys(_BACKGROUND, "a server in the background cannot be measured"),
}


def _command(start: Start) -> list[str]:
    return [
        *start.plain_or_by_pasture("uwsgi", "-c", _PLAIN), *start.arguments,
        # Without the last two it serves errors in place of an application that does not load,
        # and starts anew when it is asked to end.
        "--master", "--need-app", "--die-on-term", "--processes", str(start.workers),
        "--http-socket", start.address, "--module", start.app,
    ]  # fmt: skip


SERVER = ServerFacts(
    name="uwsgi",
    install="pasture[uwsgi]",
    command=_command,
    stock="stock is plain uWSGI, whose master loads the application and forks",
    cannot=NO_REFORK,
    silent_errors=True,
    refused=_REFUSED,
    refused_word=re.compile(r"\.(ini|xml|ya?ml|json?|sqlite3?|conf)\Z|\A\[", re.IGNORECASE),
    variables="UWSGI_",
    phrases=Phrases(
        not_found=re.compile(r"^(unable to (?:find|load) .*)$", re.MULTILINE),
        called_wrongly=called_without("send"),
        wrong_kind="the application is an ASGI one and uWSGI serves none",
        wrong_kind_hint="pasture try APP --server uvicorn",
    ),
)
