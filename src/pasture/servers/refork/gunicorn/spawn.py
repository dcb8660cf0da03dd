"""How the processes of a reforking gunicorn come into being, and what the arbiter keeps of them.

Owns the two kinds of birth: the first mold is the arbiter's own child, every worker is
forked by a mold and adopted. Invariant: each process of the tree is a child of the arbiter,
and in WORKERS (a worker) or in `_molds`, and in `_pens`, until it is reaped.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import astuple, dataclass
from time import monotonic
from typing import Any, NoReturn

from pasture.scoreboard.board import Row, Scoreboard, Seat
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.refork.channel import CLOSED, Channel, Message, open_channel, wait_for
from pasture.servers.refork.gunicorn.worker_process import Start, live
from pasture.servers.refork.mold import FORK_S
from pasture.servers.settings import ServerSettings
from pasture.servers.shortage import is_shortage

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_LOOK_S = 0.2


@dataclass(slots=True)
class Pen:
    """What the arbiter keeps of one process besides gunicorn's worker.

    Attributes:
        seat: its place on the scoreboard.
    """

    channel: Channel
    seat: Seat
    generation: int
    is_first_mold: bool = False


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
        self._pens: dict[int, Pen] = {}
        self._molds: dict[int, Any] = {}
        super().__init__(app, settings)

    def _load(self) -> int:
        """Fork the mold of generation 0 and wait until it has loaded the application.

        Returns:
            Its pid.

        Raises:
            NotLoaded: it ended instead.
            SpawnFailed: the system has no process for it now.
        """
        worker, pen, there = self._prepare_spawn(0)
        pen.is_first_mold = True
        try:
            pid = os.fork()
        except OSError as error:
            self._call_off(worker, pen, there)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        if pid == 0:
            self._live(Start(worker, there, Row(self._board.words, pen.seat), 0), pen.channel)
        here = pen.channel
        there.close()
        self._pens[pid], self._molds[pid] = pen, worker
        self._board.register(pen.seat, pid, 0)
        self._board.promote(pen.seat, 0)
        while (message := here.receive(_LOOK_S)) is None:
            if self._is_to_end():
                os.kill(pid, signal.SIGKILL)
        if message == CLOSED:
            _, status = os.waitpid(pid, 0)
            self._forget(pid)
            if self._is_to_end():
                raise StopIteration  # as gunicorn's own handler of TERM does
            raise NotLoaded(os.waitstatus_to_exitcode(status))
        return pid

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

    def _forget(self, pid: int) -> None:
        """A process has been reaped."""
        pen = self._pens.pop(pid)
        pen.channel.close()
        self._board.release(pen.seat.number)
        worker = self._molds.pop(pid, None) or self.WORKERS.pop(pid, None)
        if worker is not None:
            worker.tmp.close()
            if not pen.is_first_mold:  # which was no worker
                self.cfg.child_exit(self, worker)

    def _live(self, start: Start, arbiters_end: Channel) -> NoReturn:
        """In the new process: close what is the arbiter's, then live until the end."""
        arbiters_end.close()
        for pen in self._pens.values():
            pen.channel.close()
        for sibling in (*self.WORKERS.values(), *self._molds.values()):
            sibling.tmp.close()
        self._pens, self._molds = {}, {}
        live(self, start, self._board)

    def _unlink_and_end(self, status: int) -> NoReturn:
        if os.getpid() != self.pid:  # a mold: what would be unlinked is the arbiter's
            sys.stdout.flush()
            os._exit(status)
        super()._unlink_and_end(status)

    def _order_worker(self, generation: int, mold: int | None) -> int:
        """Have a mold fork a worker, and wait for it: milliseconds, or FORK_S at the most.

        Returns:
            The worker's pid.

        Raises:
            SpawnFailed: there is no new worker.
        """
        worker, pen, there = self._prepare_spawn(generation)
        here = pen.channel
        files = (there.fileno(), worker.tmp.fileno())
        values = {"age": worker.age, "seat": astuple(pen.seat), "generation": generation}
        sent = mold is not None and self._pens[mold].channel.send("spawn", files, **values)
        there.close()
        answer = self._await_spawn(here, mold) if mold is not None and sent else CLOSED
        if answer.word != "spawned" or not here.send("go"):
            why = answer.values.get("why", f"mold {mold} did not fork ({answer.word})")
            self._call_off(worker, pen, there)
            for_now = answer.values.get("for_now", False)
            raise SpawnFailed(why, mold_hangs=answer.word == "no answer", for_now=for_now)
        self._adopt(answer.values["pid"], worker, pen)
        return int(worker.pid)

    def _prepare_spawn(self, generation: int) -> tuple[Any, Pen, Channel]:
        """What a new process needs: the worker's object, what is kept of it, its channel.

        Raises:
            SpawnFailed: the scoreboard is full, or the system has no descriptors or files for it now.
        """
        seat = self._board.reserve()
        if seat is None:
            raise SpawnFailed("the scoreboard is full", for_now=True)
        worker = None
        try:
            worker = self._make_worker()
            here, there = open_channel()
        except OSError as error:
            if worker is not None:
                worker.tmp.close()
            self._board.release(seat.number)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        return worker, Pen(here, seat, generation), there

    def _call_off(self, worker: Any, pen: Pen, there: Channel) -> None:
        pen.channel.close()
        there.close()
        worker.tmp.close()
        self._board.release(pen.seat.number)

    def _await_spawn(self, channel: Channel, mold: int) -> Message:
        """The answer of the new worker, or what its mold says instead."""
        channels = [channel, self._pens[mold].channel]
        deadline = monotonic() + FORK_S
        while channels and (left := deadline - monotonic()) > 0:
            for ready in wait_for(channels, left):
                message = ready.receive()
                if message == CLOSED:
                    channels.remove(ready)  # the other one may know why
                elif message is not None:
                    return message
        return Message("no answer") if channels else CLOSED

    def _make_worker(self) -> Any:
        self.worker_age += 1
        return self.worker_class(
            *(self.worker_age, self.pid, self.LISTENERS, self.app, self.timeout / 2.0),
            *(self.cfg, self.log),
        )

    def _adopt(self, pid: int, worker: Any, pen: Pen) -> None:
        worker.pid = pid
        self.WORKERS[pid] = worker
        self._pens[pid] = pen
        self._board.register(pen.seat, pid, pen.generation)
        stats = getattr(self, "_stats", None)  # from gunicorn 25 on
        if stats is not None:
            stats["workers_spawned"] += 1
