"""Messages of a worker or mold to the arbiter of a server that reforks.

The arbiter is the real one, without a main loop. Messages come from this process itself, from a
child of it, and from a child of that: only the second may ever become a worker.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from gunicorn.app.base import BaseApplication

from pasture.refork.children import Worker
from pasture.refork.rollout import Kill, Limits, Rollout
from pasture.refork.schedule import Schedule
from pasture.scoreboard.board import Scoreboard
from pasture.servers.gunicorn.refork import spawn
from pasture.servers.gunicorn.refork.refork import Refork
from pasture.servers.gunicorn.refork.reforking_arbiter import ReforkingArbiter
from pasture.servers.gunicorn.refork.spawn import SpawnFailed
from pasture.serving.settings import read_environment

LOADS_EACH = 300
"""A load that fails costs a process."""

_MAX_FILES = 253  # of one message: unix(7), SCM_RIGHTS


class Application(BaseApplication):  # type: ignore[misc]
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__()

    def load_config(self) -> None:
        settings = {"bind": "127.0.0.1:0", "errorlog": str(self._folder / "log"), "workers": 2}
        for name, value in settings.items():
            self.cfg.set(name, value)


class Sender:
    """A process that sends, on a channel that it is given, what it is given."""

    def __init__(self, generations: int) -> None:
        """
        Args:
            generations: 1 for a child of this process, 2 for a child of that.
        """
        self._orders, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.child = os.fork()
        if self.child == 0:
            self._orders.close()
            if generations > 1 and os.fork():
                os.wait()
            else:
                _obey(end)
            os._exit(0)
        end.close()

    def send(self, channel: int, data: bytes) -> None:
        socket.send_fds(self._orders, [data], [channel])
        self._orders.recv(1)

    def close(self) -> None:
        """Have it end; it does once all processes that hold an end are asked to."""
        self._orders.send(b".")
        os.waitpid(self.child, 0)
        self._orders.close()


def _obey(end: socket.socket) -> None:
    while True:
        data, files, _, _ = socket.recv_fds(end, 1 << 17, 1)
        if not files:
            return
        with socket.socket(fileno=files[0]) as channel, suppress(OSError):
            channel.send(data, socket.MSG_DONTWAIT)
        end.send(b".")


class Mold:
    """An arbiter and the ends of channels that attackers hold."""

    def __init__(self, arbiter: Any, child: Sender, grandchild: Sender) -> None:
        self.outcomes: Counter[str] = Counter()
        self._arbiter, self._refork = arbiter, arbiter._refork
        self._spawner = self._refork._spawner
        self._children = self._refork._children
        self._child, self._grandchild = child, grandchild

    def sample(self, random: Random) -> bytes:
        said = random.choice(
            (
                ["loaded", {}],
                ["spawned", {}],
                ["not spawned", {"why": "too many open files", "for_now": True}],
                ["sealed", {"report": "sealed, é"}],
                ["refused", {"why": "the thread exporter runs"}],
            )
        )
        return json.dumps(said).encode()

    def take(self, data: bytes, random: Random) -> None:
        self._refork._cycle.reload(0.0)
        if not random.randrange(LOADS_EACH):
            self._load(data, random)
        elif random.randrange(2):
            self._promote(data, random)
        else:
            self._spawn(data, random)

    # --- What a promoted worker says ---------------------------------------------------

    def _promote(self, data: bytes, random: Random) -> None:
        mold, there = self._new(self._child.child)
        mold.role = "mold"
        rollout = Rollout(mold, 1, self._children, Limits(), 0.0)
        rollout.phase = "promoting"
        self._refork._cycle.rollout = rollout
        for message in (data,) * random.choice((1, 1, 2, 50)):
            self._say(there, message, random)
        self._refork._hear(mold)
        actions = self._performed()
        self.outcomes["mold: " + ("killed" if Kill in actions else rollout.phase)] += 1
        self._forget(mold, there)

    # --- What is said when a worker is ordered -----------------------------------------

    def _spawn(self, data: bytes, random: Random) -> None:
        mold, there = self._new(self._child.child if random.randrange(2) else 0)
        mold.role, mold.generation, mold.forks = "mold", 1, True
        says = random.choice((self._say, self._say_by_child, self._say_by_grandchild))
        on_workers_channel = random.randrange(4)
        if not on_workers_channel:
            says(there, data, random)
        prepare = self._spawner._prepare_spawn

        def prepare_spawn(generation: int) -> Any:
            worker, its = prepare(generation)
            if on_workers_channel:
                says(its, data, random)
            return worker, its

        with mock.patch.object(self._spawner, "_prepare_spawn", prepare_spawn):
            self._order(mold)
        self._performed()
        self._forget(mold, there)

    def _order(self, mold: Worker) -> None:
        arbiter, known = self._arbiter, self._child.child
        try:
            worker = self._spawner.order(1, mold)
        except SpawnFailed as error:
            self.outcomes["order: " + ("killed" if error.mold_is_at_fault else "failed")] += 1
            assert not arbiter.WORKERS and str(error).isprintable()
            return
        self.outcomes["order: a worker"] += 1
        assert worker.pid == known != mold.pid and list(arbiter.WORKERS) == [known]
        self._refork._cycle.spawned(worker)
        arbiter.kill_workers(15)
        self._forget(worker, None)

    # --- What is said when the application is loaded -----------------------------------

    def _load(self, data: bytes, random: Random) -> None:
        child = os.fork()
        if child == 0:
            os._exit(random.choice((0, 0, 1, 3)))
        mold, there = self._new(child)
        mold.role = "first mold"
        self._say(there, data, random)
        code = self._spawner._await_load(mold)
        self.outcomes[f"load: {'done' if code is None else 'ended'}"] += 1
        there.close()
        if code is None:
            os.waitpid(child, 0)
            self._forget(mold, None)

    # --- Small steps -------------------------------------------------------------------

    def _new(self, pid: int) -> tuple[Worker, Any]:
        """A record of a process, and the end of the channel that is the process's."""
        worker, there = self._spawner._prepare_spawn(0)
        worker.pid = pid
        self._children.by_pid[worker.pid] = worker
        return worker, there

    def _forget(self, worker: Worker, there: Any) -> None:
        if there is not None:
            there.close()
        self._children.by_pid.pop(worker.pid, None)
        self._spawner.let_go_of(worker)

    def _performed(self) -> list[type]:
        """Carry out what the life cycle wants done with processes that are there."""
        refork, done = self._refork, []
        while refork._cycle._queue:
            action = refork._cycle._queue.popleft()
            done.append(type(action))
            refork._perform(action)
        return done

    def _say(self, channel: Any, data: bytes, random: Random) -> None:
        files = array("i", [0] * random.choice((0,) * 20 + (1, 2, 4, 5, _MAX_FILES)))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)] if files else []
        with suppress(BlockingIOError):
            channel._socket.sendmsg([data], rights, socket.MSG_DONTWAIT)

    def _say_by_child(self, channel: Any, data: bytes, random: Random) -> None:
        self._child.send(channel.fileno(), data)

    def _say_by_grandchild(self, channel: Any, data: bytes, random: Random) -> None:
        self._grandchild.send(channel.fileno(), data)


def _without_waiting() -> Callable[[float], None]:
    """No message comes later than the first look; a child that is to end has ended."""
    return lambda seconds: time.sleep(0.001)


@contextmanager
def open_target() -> Iterator[Mold]:
    child, grandchild = Sender(1), Sender(2)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(spawn, "FORK_S", 0.002),
        mock.patch.object(spawn, "_LOOK_S", 0.002),
        mock.patch.object(spawn, "sleep", _without_waiting()),
    ):
        settings = read_environment({}, refork="5,50")
        arbiter: Any = ReforkingArbiter(Application(Path(folder)), settings)
        # As `start` does, without sockets and without becoming a subreaper.
        arbiter.pid = os.getpid()
        arbiter._refork = Refork(arbiter, Schedule((5, 50)), Scoreboard(16))
        try:
            yield Mold(arbiter, child, grandchild)
        finally:
            child.close()
            grandchild.close()
