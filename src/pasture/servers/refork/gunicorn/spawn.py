"""How the processes of a reforking gunicorn come into being, and what the arbiter keeps of them.

Owns the two ways to spawn: the first mold is the arbiter's own child, every worker is
forked by a mold and adopted. Invariant: each process of the tree is a child of the arbiter and
has a record in `children` until it is reaped; those that serve are in gunicorn's WORKERS too.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from dataclasses import astuple
from time import monotonic
from typing import Any, NoReturn

from pasture.errors import UsageError
from pasture.scoreboard.board import Scoreboard
from pasture.sealing.policy import PrepareStep
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.refork.channel import CLOSED, Channel, Message, open_channel, wait_for
from pasture.servers.refork.children import Children, Worker
from pasture.servers.refork.gunicorn.worker_process import live
from pasture.servers.refork.mold import FORK_S, Start
from pasture.servers.refork.served import VARIABLE
from pasture.servers.settings import ServerSettings
from pasture.servers.shortage import is_shortage
from pasture.warmup.requests import parse_lines

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_LOOK_S = 0.2

_WARM_S = 10.0
"""The arbiter waits for the first mold, and does nothing else meanwhile."""


class NotLoaded(Exception):
    """The application cannot be loaded."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the application cannot be loaded (exit code {status})")
        self.status = status if status > 0 else 1


class SpawnFailed(Exception):
    """There is no new process; the text says why.

    Attributes:
        mold_hangs: it has not answered.
        for_now: the system had nothing for it; the same may succeed later.
    """

    def __init__(self, why: str, *, mold_hangs: bool = False, for_now: bool = False) -> None:
        super().__init__(why)
        self.mold_hangs = mold_hangs
        self.for_now = for_now


class SpawningArbiter(SealingArbiter):
    """An arbiter that forks one process, which loads the application, and adopts the others."""

    _board: Scoreboard

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self.children = Children()
        self._served = tuple(os.environ.pop(VARIABLE, "").splitlines())
        super().__init__(app, settings)

    def warm_as_served(self) -> None:
        """Have the first mold warmed up with what the server has served before, in that mold.

        A warm-up that the user has asked for takes precedence.
        """
        if not self._served or self._settings.warm_up or not self._settings.refork_warms:
            return
        try:
            requests = parse_lines(self._served)
        except UsageError as error:
            self.log.warning("pasture: no warm-up with what was served: %s", error)
            return
        policy = self._settings.policy
        prepare: tuple[PrepareStep, ...] = ("warm-up", *policy.prepare)
        self._settings = dataclasses.replace(
            self._settings,
            warm_up=requests,
            warm_total_timeout_s=min(self._settings.warm_total_timeout_s or _WARM_S, _WARM_S),
            policy=dataclasses.replace(policy, prepare=tuple(dict.fromkeys(prepare))),
        )
        self._sealer = self._make_sealer()

    def _load(self) -> Worker:
        """Fork the mold of generation 0 and wait until it has loaded the application.

        Raises:
            NotLoaded: it ended instead.
            SpawnFailed: the system has no process for it now.
        """
        mold, there = self._prepare_spawn(0)
        mold.role = "first mold"
        try:
            pid = os.fork()
        except OSError as error:
            self._call_off(mold, there)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        if pid == 0:
            start = Start(there, mold.seat, 0, mold.handle.age, worker=mold.handle)
            self._live(start, mold.channel)
        there.close()
        self._take_in(mold, pid)
        self.children.add(mold)
        self._board.promote(mold.seat, 0)
        while (message := mold.channel.receive(_LOOK_S)) is None:
            if self._is_to_end():
                os.kill(pid, signal.SIGKILL)
        if message == CLOSED:
            _, status = os.waitpid(pid, 0)
            self.children.remove(pid)
            self._let_go_of(mold)
            if self._is_to_end():
                raise StopIteration  # as gunicorn's own handler of TERM does
            raise NotLoaded(os.waitstatus_to_exitcode(status))
        return mold

    def _is_to_end(self) -> bool:
        """Whether a signal that ends the server waits to be handled."""
        queue = self.SIG_QUEUE  # a list in gunicorn 23
        waiting = list(queue) if isinstance(queue, list) else []
        if not isinstance(queue, list):
            while not queue.empty():
                waiting.append(queue.get_nowait())
            for number in waiting:
                queue.put_nowait(number)
        return any(number in _ENDING for number in waiting)

    def _let_go_of(self, worker: Worker) -> None:
        """A process has been reaped."""
        worker.channel.close()
        worker.handle.tmp.close()
        self._board.release(worker.seat.number)
        self.WORKERS.pop(worker.pid, None)
        if worker.role != "first mold":  # which was no worker
            self.cfg.child_exit(self, worker.handle)

    def _live(self, start: Start, arbiters_end: Channel) -> NoReturn:
        """In the new process: close what is the arbiter's, then live until the end."""
        arbiters_end.close()
        for sibling in self.children:
            sibling.channel.close()
            sibling.handle.tmp.close()
        self.children.clear()
        live(self, start, self._board)

    def _unlink_and_end(self, status: int) -> NoReturn:
        if os.getpid() != self.pid:  # a mold: what would be unlinked is the arbiter's
            sys.stdout.flush()
            os._exit(status)
        super()._unlink_and_end(status)

    def _order_worker(self, generation: int, mold: Worker | None) -> Worker:
        """Have a mold fork a worker, and wait for it: milliseconds, or FORK_S at the most.

        Raises:
            SpawnFailed: there is no new worker.
        """
        worker, there = self._prepare_spawn(generation)
        files = (there.fileno(), worker.handle.tmp.fileno())
        values = {
            "age": worker.handle.age,
            "seat": astuple(worker.seat),
            "generation": generation,
        }
        sent = mold is not None and mold.channel.send("spawn", files, **values)
        there.close()
        answer = self._await_spawn(worker, mold) if mold is not None and sent else CLOSED
        if answer.word != "spawned" or not worker.channel.send("go"):
            pid = mold and mold.pid
            why = answer.values.get("why", f"mold {pid} did not fork ({answer.word})")
            self._call_off(worker, there)
            for_now = answer.values.get("for_now", False)
            raise SpawnFailed(why, mold_hangs=answer.word == "no answer", for_now=for_now)
        self._adopt(worker, answer.values["pid"])
        return worker

    def _prepare_spawn(self, generation: int) -> tuple[Worker, Channel]:
        """What a new process needs: its record, and its own end of its channel.

        Raises:
            SpawnFailed: the scoreboard is full, or the system has no descriptors or files for
                it now.
        """
        seat = self._board.reserve()
        if seat is None:
            raise SpawnFailed("the scoreboard is full", for_now=True)
        handle = None
        try:
            handle = self._make_handle()
            here, there = open_channel()
        except OSError as error:
            if handle is not None:
                handle.tmp.close()
            self._board.release(seat.number)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        return Worker(0, generation, channel=here, seat=seat, handle=handle), there

    def _call_off(self, worker: Worker, there: Channel) -> None:
        worker.channel.close()
        there.close()
        worker.handle.tmp.close()
        self._board.release(worker.seat.number)

    def _await_spawn(self, worker: Worker, mold: Worker) -> Message:
        """The answer of the new worker, or what its mold says instead."""
        channels = [worker.channel, mold.channel]
        deadline = monotonic() + FORK_S
        while channels and (left := deadline - monotonic()) > 0:
            for ready in wait_for(channels, left):
                message = ready.receive()
                if message == CLOSED:
                    channels.remove(ready)  # the other one may know why
                elif message is not None:
                    return message
        return Message("no answer") if channels else CLOSED

    def _make_handle(self) -> Any:
        """gunicorn's own object for a worker."""
        self.worker_age += 1
        return self.worker_class(
            *(self.worker_age, self.pid, self.LISTENERS, self.app, self.timeout / 2.0),
            *(self.cfg, self.log),
        )

    def _adopt(self, worker: Worker, pid: int) -> None:
        worker.handle.pid = pid
        self.WORKERS[pid] = worker.handle
        self._take_in(worker, pid)
        stats = getattr(self, "_stats", None)  # from gunicorn 25 on
        if stats is not None:
            stats["workers_spawned"] += 1

    def _take_in(self, worker: Worker, pid: int) -> None:
        worker.pid, worker.spawned_at = pid, monotonic()
        self._board.register(worker.seat, pid, worker.generation)
