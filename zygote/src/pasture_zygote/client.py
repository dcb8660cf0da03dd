"""Orders to the server of zygotes, and starting one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from pasture.errors import ZygoteFailed
from pasture_zygote import place, protocol
from pasture_zygote.listen import is_served
from pasture_zygote.peer import peer_differs

_START_TIMEOUT_S = 20.0


def ask(order: dict[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Give an order; returns the status of all zygotes afterwards.

    Raises:
        ZygoteFailed: there is no server, or it cannot do that.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(os.fspath(place.socket_path()))
        except OSError:
            raise ZygoteFailed(
                "no zygote is running", hint="pasture zygote start --preload MODULE,..."
            ) from None
        difference = peer_differs(connection)
        if difference is not None:
            raise ZygoteFailed(f"the server is not to be trusted: {difference}")
        return _exchange(connection, order)


def _exchange(connection: socket.socket, order: dict[str, Any]) -> dict[str, Any]:
    try:
        protocol.send(connection, protocol.order(order))
        answer = json.loads(protocol.receive(connection) or b"null")
    except TimeoutError:
        raise ZygoteFailed("the server does not answer", hint=_hint()) from None
    except (OSError, ValueError) as error:
        raise ZygoteFailed(f"the server has not answered: {error}", hint=_hint()) from None
    if not isinstance(answer, dict) or not {"error", "zygotes"} & answer.keys():
        raise ZygoteFailed("the server has not answered", hint=_hint())
    if "error" in answer:
        raise ZygoteFailed(answer["error"], hint=answer.get("hint") or _hint())
    return answer


def _hint() -> str:
    return f"its log: {place.log_path()}"


def start_server() -> None:
    """Start one in the background, if none runs.

    Raises:
        ZygoteFailed: it does not start.
    """
    path = place.socket_path()
    if is_served(path):
        return
    place.make_folder()
    with place.log_path().open("ab") as log:
        os.fchmod(log.fileno(), 0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "pasture_zygote"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    end = time.monotonic() + _START_TIMEOUT_S
    while not is_served(path):
        if process.poll() is not None or time.monotonic() > end:
            raise ZygoteFailed("the server does not start", hint=_hint())
        time.sleep(0.02)
