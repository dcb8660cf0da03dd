"""The servers that a trial can boot: what is known of each, by its name.

A new one is a module here with a `SERVER`, and its name in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pasture.errors import UsageError
from pasture.trial.servers import gunicorn, uvicorn, uwsgi
from pasture.trial.servers.facts import ServerFacts

SERVERS: Mapping[str, ServerFacts] = MappingProxyType(
    {facts.name: facts for facts in (gunicorn.SERVER, uvicorn.SERVER, uwsgi.SERVER)}
)
"""By name; the first is the default."""


def find_server(name: str) -> ServerFacts:
    """What is known of a server.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in SERVERS:
        raise UsageError(
            f"{name!r} is no server that a trial can boot", hint=f"known are {', '.join(SERVERS)}"
        )
    return SERVERS[name]
