"""What a builder says at the zygotes' server: modules that are loaded share its channel."""

from __future__ import annotations

import dataclasses
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

from pasture_zygote import builds, changes, memory, orders, server
from pasture_zygote.times import file_times
from pasture_zygote.tree import Plan

PYTHON = str(Path(sys.executable).parent / "python")
NEW_EACH = 10


class Reported:
    """In the place of a build: its channel has a message."""

    end = builds.Build.end
    receive = builds.Build.receive

    def __init__(self, zygote: Any, base: Any, log: int) -> None:
        self.zygote = zygote
        self.channel, self.theirs = socket.socketpair()
        self.process = SimpleNamespace(pid=-1, kill=lambda: None, returncode=0)


class Reports:
    """A server that has one zygote made, again and again."""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(folder / "zygote"))
        self.server: Any = server.Server(listener, 2)
        self._zygote = self.server._tree.add(Plan("x", "", (), PYTHON, (), {}))
        (folder / "a.py").write_text("")
        built = orders.Built(
            seal="sealed",
            files=(file_times(str(folder / "a.py")), ("/missing", 0, 0, 0, 0)),
            folders={str(folder): ("a", "b/", "*.pth"), "/missing": ()},
            modules=("sys", "a"),
            variables={"HOME": "/", "LANG": None},
            bytes=4096,
        )
        self._sample = json.dumps(dataclasses.asdict(built)).encode()
        self._messages = 0

    def sample(self, random: Random) -> bytes:
        return self._sample

    def take(self, data: bytes, random: Random) -> None:
        zygote = self._zygote
        self.server._make_at_once(zygote)
        self.server._start_builds()
        build = self.server._builds["x"]
        self._say(build.theirs, data, random)
        build.theirs.close()
        self.server._finish(build)
        assert zygote.state in ("ready", "failed", "waiting"), zygote.state
        self.outcomes[zygote.state] += 1
        json.dumps(self.server.status())
        self.server._tree.choose("", PYTHON, (), ("a",))
        if zygote.state == "ready":
            self.server._is_outdated(zygote)
        self._messages += 1
        if self._messages % NEW_EACH == 0:
            self.server._drop(zygote)  # a zygote that is ready has files open

    @staticmethod
    def _say(theirs: socket.socket, data: bytes, random: Random) -> None:
        kind = random.randrange(40)
        numbers = [memory.written("x", data)]
        try:
            if kind == 0:
                theirs.send(data or b"x")
                return
            if kind == 1:
                numbers.append(os.open("/dev/null", os.O_RDONLY))
            for _ in range(random.choice((0, 1, 3, 70) if kind < 8 else (2,))):
                numbers.append(memory.create("y"))
            if kind == 2:
                numbers.reverse()
            socket.send_fds(theirs, [b"built" if kind != 3 else data[:9] or b"x"], numbers)
        finally:
            for number in numbers:
                os.close(number)


@contextmanager
def open_target() -> Iterator[Reports]:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(server, "Build", Reported),
        mock.patch.object(changes, "Watch", Unwatched),
        mock.patch.object(server.Server, "_note", lambda *_: None),
    ):
        target = Reports(Path(folder))
        yield target
        target.server.end()
