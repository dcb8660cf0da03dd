"""gunicorn: preloads the application under each policy, and so under `stock`."""

from __future__ import annotations

import re

from pasture.trial.servers.facts import Phrases, ServerFacts, Start, called_without

_CONTROL_SOCKET = "control_socket"


def _command(start: Start) -> list[str]:
    """Socket and pid file come last: a configuration file may name those of a server in
    production."""
    own = ["--pid", str(start.folder / "pid")]
    if _CONTROL_SOCKET in start.features:
        own += ["--control-socket", str(start.folder / "control")]
    return [
        *start.by_pasture("gunicorn"),
        "--workers", str(start.workers), "--bind", start.address, *start.arguments, *own, start.app,
    ]  # fmt: skip


SERVER = ServerFacts(
    name="gunicorn",
    install="gunicorn",
    command=_command,
    # 25.1 and newer have one.
    features="from gunicorn.config import KNOWN_SETTINGS as known; "
    f"print(*(s.name for s in known if s.name == '{_CONTROL_SOCKET}'))",
    phrases=Phrases(
        not_found=re.compile(r"^(Failed to (?:find|parse) .*|No module named .*)$", re.MULTILINE),
        steps="[INFO]",
        called_wrongly=called_without("send"),
        wrong_kind="the application is an ASGI one and the worker is not",
        wrong_kind_hint="pasture try APP --server uvicorn; or choose a worker for ASGI: "
        "pasture try APP -- -k uvicorn_worker.UvicornWorker",
    ),
)
