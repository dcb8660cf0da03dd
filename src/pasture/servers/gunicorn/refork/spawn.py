"""The forks of a reforking gunicorn, and the arbiter's records of its processes.

The arbiter forks the first mold itself, a mold forks every worker, and the arbiter adopts it.
Invariant: each process of the tree is a child of the arbiter and has a record in `Children` until
it is reaped; those that serve are in gunicorn's WORKERS too.
"""

from __future__ import annotations

import os
import signal
from dataclasses import astuple
from time import monotonic, sleep
from typing import NoReturn

from pasture.proc.parent import is_own_child
from pasture.refork.channel import (
    CLOSED,
    FROM_CHILDREN,
    MALFORMED,
    Channel,
    Message,
    open_channel,
    wait_for,
)
from pasture.refork.children import Children, Worker
from pasture.refork.mold import ENDING, FORK_S, Start
from pasture.refork.shortage import is_shortage
from pasture.scoreboard.board import Scoreboard
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.gunicorn.refork.worker_process import live, make_handle
from pasture.trust.untrusted_text import printable

SENT_WHAT_NO_MOLD_SENDS = "its mold sent an unexpected message"

_LOOK_S = 0.2
_POLL_S = 0.01
_NO_ANSWER = Message("no answer")
_FAULTS = {_NO_ANSWER.word: "its mold hangs", MALFORMED.word: SENT_WHAT_NO_MOLD_SENDS}
_ENDED = "its mold has ended"

_LOADS = 3
"""Number of tries if the loading mold is killed from outside, as by the kernel without memory."""

_END_S = 1.0
"""Timeout for the end of a process that has closed its channel."""


class NotLoaded(Exception):
    """The application cannot be loaded; has the exit code of the process that tried it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the application cannot be loaded (exit code {status})")
        self.status = status


class HoldsHazard(Exception):
    """The application's import holds hazards of a fork; the text names them."""


class LoadEnded(Exception):
    """The process that loads the application was ended each time: by a signal, or with exit code 0.

    The application itself may be good.
    """


class SpawnFailed(Exception):
    """No process was made; the text says why.

    Attributes:
        mold_is_at_fault: the mold has not answered, or wrongly: it is to be killed.
        for_now: the system lacked resources; a later try may succeed.
    """

    def __init__(self, why: str, *, mold_is_at_fault: bool = False, for_now: bool = False) -> None:
        super().__init__(why)
        self.mold_is_at_fault = mold_is_at_fault
        self.for_now = for_now


def has_ended(child: int) -> bool:
    """Whether a child of this process has ended and is not reaped."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, child, options) is not None


def is_stopped(child: int) -> bool:
    """Whether a child of this process is stopped, by SIGSTOP for instance."""
    options = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT
    state = os.waitid(os.P_PID, child, options)
    return state is not None and state.si_code == os.CLD_STOPPED


class Spawner:
    """Forks the process that loads the application, and adopts those that molds fork."""

    def __init__(self, arbiter: SealingArbiter, board: Scoreboard, children: Children) -> None:
        self._arbiter, self._board, self._children = arbiter, board, children

    def load(self) -> Worker:
        """A mold of generation 0 that has loaded the application.

        Raises:
            HoldsHazard: its import is not safe to fork.
            NotLoaded: it ended by itself instead.
            LoadEnded: it was killed, and so were its successors.
            SpawnFailed: the system has no process for it now.
        """
        for _ in range(_LOADS):
            mold = self._fork_first_mold()
            code = self._await_load(mold)
            if code is None:
                return mold
            if code > 0:
                raise NotLoaded(code)
            self._arbiter.log.error(
                "pasture: the mold that loads the application was ended by %s",
                f"signal {-code}" if code else "itself, with 0",
            )
        raise LoadEnded(f"the mold that loads the application was ended {_LOADS} times")

    def _fork_first_mold(self) -> Worker:
        """Raises SpawnFailed: the system has no process for it now."""
        mold, there = self._prepare_spawn(0)
        mold.role = "first mold"
        # The child clears the mask once it has handlers: the arbiter's would only note a signal.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._call_off(mold, there)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        if pid == 0:
            start = Start(there, mold.slot, 0, mold.handle.age, worker=mold.handle)
            self._live(start, mold.channel)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        there.close()
        self._take_in(mold, pid)
        self._children.by_pid[mold.pid] = mold
        self._board.promote(mold.slot, 0)
        return mold

    def _await_load(self, mold: Worker) -> int | None:
        """Wait until the application is loaded; returns None, or how the process has ended.

        A load has no timeout. A stopped process has the workers' timeout.
        Raises StopIteration where the server is to end.
        """
        goes_on_at = monotonic()
        while True:
            message = mold.channel.receive(_LOOK_S)
            if message is not None and message.word == "loaded":
                mold.has_answered = True
                return None
            if message is not None and message.word == "plain":
                self._end_of(mold, _END_S)
                raise HoldsHazard(printable(message.values["why"]))
            if not is_stopped(mold.pid):
                goes_on_at = monotonic()
            elif 0 < self._arbiter.timeout < monotonic() - goes_on_at:
                self._arbiter.log.error("pasture: the mold that loads the application is stopped")
                return self._end_of(mold, 0.0)
            if self._is_to_end():
                self._end_of(mold, 0.0)
                raise StopIteration  # as gunicorn's own handler of TERM does
            # Processes that it has forked may keep the channel open after its end.
            if message is not None or has_ended(mold.pid):
                return self._end_of(mold, _END_S if message == CLOSED else 0.0)

    def _end_of(self, mold: Worker, wait_s: float) -> int:
        """Wait for the end of a mold that does not serve, then kill and forget it."""
        deadline = monotonic() + wait_s
        while not has_ended(mold.pid) and monotonic() < deadline:
            sleep(_POLL_S)
        if not has_ended(mold.pid):
            os.kill(mold.pid, signal.SIGKILL)
        _, status = os.waitpid(mold.pid, 0)
        self._children.by_pid.pop(mold.pid, None)
        self.let_go_of(mold)
        return os.waitstatus_to_exitcode(status)

    def _is_to_end(self) -> bool:
        """Whether a signal that ends the server waits to be handled."""
        queue = self._arbiter.SIG_QUEUE  # a list in gunicorn 23
        waiting = list(queue) if isinstance(queue, list) else []
        if not isinstance(queue, list):
            while not queue.empty():
                waiting.append(queue.get_nowait())
            for number in waiting:
                queue.put_nowait(number)
        return any(number in ENDING for number in waiting)

    def let_go_of(self, worker: Worker) -> None:
        """Forget a process that has been reaped."""
        worker.channel.close()
        worker.handle.tmp.close()
        self._board.release(worker.slot.number)
        self._arbiter.WORKERS.pop(worker.pid, None)
        if worker.role != "first mold":  # it was not a worker
            self._arbiter.cfg.child_exit(self._arbiter, worker.handle)

    def _live(self, start: Start, arbiters_end: Channel) -> NoReturn:
        """In the new process: close the arbiter's files, then live until the end."""
        arbiters_end.close()
        for sibling in self._children:
            sibling.channel.close()
            sibling.handle.tmp.close()
        self._children.by_pid.clear()
        live(self._arbiter, start, self._board)

    def order(self, generation: int, mold: Worker | None) -> Worker:
        """Have a mold fork a worker, and wait for it: milliseconds, or FORK_S at most.

        Raises SpawnFailed if that fails.
        """
        worker, there = self._prepare_spawn(generation)
        files = (there.fileno(), worker.handle.tmp.fileno())
        values = {"age": worker.handle.age, "slot": astuple(worker.slot), "generation": generation}
        sent = mold is not None and mold.channel.send("spawn", files, **values)
        there.close()
        answer = self._await_spawn(worker, mold) if mold is not None and sent else CLOSED
        if answer.word == "spawned" and not self._is_new_child(answer.sender):
            answer = MALFORMED
        if answer.word != "spawned" or not worker.channel.send("go"):
            self._call_off(worker, there)
            raise SpawnFailed(
                _FAULTS.get(answer.word) or printable(answer.values.get("why", _ENDED)),
                mold_is_at_fault=answer.word in _FAULTS,
                for_now=answer.values.get("for_now", False),
            )
        worker.handle.pid = answer.sender
        self._take_in(worker, answer.sender)
        self._arbiter.WORKERS[answer.sender] = worker.handle  # it comes last among them
        stats = getattr(self._arbiter, "_stats", None)  # from gunicorn 25 on
        if stats is not None:
            stats["workers_spawned"] += 1
        return worker

    def _is_new_child(self, pid: int) -> bool:
        """Whether the sender of a first message, by the kernel, may be a new worker.

        The arbiter signals its workers, as root where they are not: only a child of its own that it
        does not know yet becomes one.
        """
        arbiter = self._arbiter
        others = (arbiter.reexec_pid, getattr(arbiter, "dirty_arbiter_pid", 0))
        known = (*others, *arbiter.WORKERS, *self._children.by_pid)
        return pid not in known and is_own_child(pid)

    def _prepare_spawn(self, generation: int) -> tuple[Worker, Channel]:
        """The record of a new process, and that process's end of the channel.

        Raises SpawnFailed: the scoreboard is full, or the system has no descriptors or files for it
        now.
        """
        slot = self._board.reserve()
        if slot is None:
            raise SpawnFailed("the scoreboard is full", for_now=True)
        handle = None
        try:
            self._arbiter.worker_age += 1
            handle = make_handle(self._arbiter, self._arbiter.worker_age)
            here, there = open_channel(FROM_CHILDREN)
        except OSError as error:
            if handle is not None:
                handle.tmp.close()
            self._board.release(slot.number)
            raise SpawnFailed(f"{error}", for_now=is_shortage(error)) from None
        return Worker(0, generation, channel=here, slot=slot, handle=handle), there

    def _call_off(self, worker: Worker, there: Channel) -> None:
        worker.channel.close()
        there.close()
        worker.handle.tmp.close()
        self._board.release(worker.slot.number)

    def _await_spawn(self, worker: Worker, mold: Worker) -> Message:
        """The answer of the new worker, or its mold's."""
        expected = {worker.channel: "spawned", mold.channel: "not spawned"}
        deadline = monotonic() + FORK_S
        while expected and (left := deadline - monotonic()) > 0:
            for ready in wait_for(list(expected), left):
                message = ready.receive()
                if message == CLOSED:
                    del expected[ready]  # the other one may have the reason
                elif message is not None:
                    return message if message.word == expected[ready] else MALFORMED
        return _NO_ANSWER if expected else CLOSED

    def _take_in(self, worker: Worker, pid: int) -> None:
        worker.pid, worker.spawned_at = pid, monotonic()
        self._board.register(worker.slot, pid, worker.generation)
