"""Requests and orders at the zygotes' server, and words of what became of a request.

A client has the user's own rights, or it is not answered; but it may be broken, or of another
version. What makes images is exchanged for something that makes none.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from unwatched import Unwatched

from pasture_zygote import changes, memory, protocol, server
from pasture_zygote.orders import Built
from pasture_zygote.tree import Zygote

PYTHON = str(Path(sys.executable).parent / "python")
NAMES = ("", "x", "y", "bare", "z" * 101)
GOOD_EACH = 500
NEW_EACH = 50
MAX_TURNS = 40


class Made:
    """In the place of a build: ends at once, with two files in memory or a problem."""

    def __init__(self, zygote: Zygote, base: Zygote | None, log: int) -> None:
        self.zygote = zygote
        self.channel, self._theirs = socket.socketpair()
        self._theirs.send(b"x")
        self.process = SimpleNamespace(pid=-1, kill=lambda: None)

    def receive(self) -> tuple[Built, list[int]]:
        if "missing" in self.zygote.plan.preload:
            return Built(problem="no such module"), []
        return Built(modules=("sys", "json")), [memory.create("a"), memory.create("b")]

    def end(self) -> None:
        self.channel.close()
        self._theirs.close()


class Requests:
    """A server without processes, and clients."""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self._path = str(folder / "zygote")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self._path)
        self.server: Any = server.Server(listener, 2)
        self._messages = 0

    def sample(self, random: Random) -> bytes:
        if random.randrange(2):
            words = (
                "run 2",
                random.choice(NAMES),
                PYTHON,
                "json,os",
                *["-u"] * random.randrange(2),
            )
            return "\0".join((*words, "")).encode()
        do = random.choice(("start", "start", "stop", "reload", "status"))
        order: dict[str, Any] = {"do": do, "name": random.choice(NAMES)}
        if do == "start":
            order |= {"base": random.choice(("", "", "x")), "preload": ["json"], "options": []}
            order |= {"python": PYTHON, "environ": {"HOME": "/"}, "rehearse": ""}
            if not random.randrange(5):
                order["preload"] = ["missing"]
        return protocol.order(order)

    def take(self, data: bytes, random: Random) -> None:
        self._messages += 1
        with self._connected() as client:
            self._send(client, data, random)
            self._turn()
            answer = self._answer(client)
            self._note(answer, data)
            if answer.startswith(b"serve "):
                client.send(random.choice((b"taken", b"left a reason", data[:100] or b"x")))
        self._turn()
        self.server._is_stopping = False
        if self._messages % NEW_EACH == 0:
            self._drop_all()
        if self._messages % GOOD_EACH == 0:
            self._be_good()
            self._drop_all()

    def _connected(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(self._path)
        client.setblocking(False)
        return client

    @staticmethod
    def _send(client: socket.socket, data: bytes, random: Random) -> None:
        number = memory.written("message", data)
        try:
            if not random.randrange(4):
                many = random.choice((1, 1, 2, 9))
                socket.send_fds(
                    client, [random.choice((b"in memory 1", data or b"x"))], [number] * many
                )
            elif random.randrange(20):
                client.send(data or b"x")
        finally:
            os.close(number)

    def _turn(self) -> None:
        """Until the server waits; as its loop, which would catch what is raised here."""
        for _ in range(MAX_TURNS):
            self.server._start_builds()
            ready = self.server._selector.select(0)
            if not ready:
                return
            for key, _ in ready:
                key.data()
        raise AssertionError("the server runs in circles")

    def _answer(self, client: socket.socket) -> bytes:
        try:
            answer, numbers, _, _ = socket.recv_fds(client, 1 << 17, 64)
        except BlockingIOError:
            return b"wait"
        for number in numbers:
            os.close(number)
        return answer

    def _note(self, answer: bytes, data: bytes) -> None:
        kind = answer.partition(b" ")[0] if answer[:1] != b"{" else b"status"
        if kind == b"status" and "error" in json.loads(answer):
            kind = b"error"
        assert kind in (b"", b"exec", b"serve", b"status", b"error", b"wait", b"in"), answer[:200]
        self.outcomes[kind.decode() or "closed"] += 1

    def _be_good(self) -> None:
        """A client without fault is served, whatever came before."""
        fields = {"do": "start", "name": "good", "base": "", "preload": [], "python": PYTHON}
        for order in ({"do": "stop", "name": "good"}, {**fields, "options": [], "environ": {}}):
            with self._connected() as client:
                client.send(protocol.order(order))
                self._turn()
                self._answer(client)
        with self._connected() as client:
            client.send(f"run 2\0good\0{PYTHON}\0\0".encode())
            self._turn()
            assert self._answer(client) == b"serve good"
            client.send(b"taken")
        self._turn()
        self.outcomes["a good client was served"] += 1

    def _drop_all(self) -> None:
        """So that the process is as large as it was."""
        tree = self.server._tree.zygotes
        for zygote in tree.values():
            self.server._drop(zygote)
        tree.clear()
        self.server._answer_waiting()


@contextmanager
def open_target() -> Iterator[Requests]:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(server, "Build", Made),
        mock.patch.object(changes, "Watch", Unwatched),
        mock.patch.object(server.Server, "_note", lambda *_: None),
    ):
        target = Requests(Path(folder))
        yield target
        target.server.end()
