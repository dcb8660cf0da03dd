"""The making and the life of a mold: from a worker that has stopped serving to the last fork.

Owns the part that all servers share. Invariant: a process with hazards of a fork does not become a
mold; the server knows every process that a mold forks before it runs other code.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pasture.fork_safety import close, inherited, streams, survey
from pasture.own_values import generators
from pasture.reasons import Hazard, Reason
from pasture.refork.channel import CLOSED, Channel, channel_of
from pasture.refork.shortage import is_shortage
from pasture.scoreboard.board import Slot
from pasture.scoreboard.recorder import recorder
from pasture.sealing import exit
from pasture.sealing.policy import Policy
from pasture.sealing.report import SealReport
from pasture.sealing.seal import seal
from pasture.sealing.steps import HEAP_STEPS

FORK_S = 5.0
"""Timeout of a fork, through both processes and until the server knows the child."""

WORTH_PLUGGING_BLOCKS = 10_000
"""Number of pymalloc's blocks: about 1 MB. The plugs of a seal take 0.2 MB or more, for good."""

_blocks_when_plugged: int | None = None

_POLL_S = 0.001

_SHORTAGE = 75
"""Exit status of the process in between, if the system lacked resources for the second fork."""

_HINTS = {
    survey.CLOSE_OR_OPEN: "close it in a function under @pasture.before_fork",
    survey.START_EACH: "end it in a function under @pasture.before_fork",
}
"""Hints that replace those for a server: here a worker has opened and started things."""

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals by which molds and workers are asked to end."""

_FILES = 2
"""Number of files with an order for a worker: its channel and its heartbeat file."""


class Refused(Exception):
    """This process cannot become a mold; the text says why."""


class ForkFailed(Exception):
    """A process could not be forked; the text says why.

    Attributes:
        for_now: the system lacked resources; a later try may succeed.
    """

    def __init__(self, why: str, *, for_now: bool) -> None:
        super().__init__(why)
        self.for_now = for_now


@dataclass(slots=True)
class Start:
    """The state that a new process of the server starts with."""

    channel: Channel  # its channel to the server
    slot: Slot  # its row on the scoreboard
    generation: int  # generation of the mold that forks it
    age: int  # number that the server gave it
    files: tuple[int, ...] = ()  # descriptors from the server, open until the fork
    worker: Any = None  # the server's own object, made before the fork


def policy_of_molds(policy: Policy) -> Policy:
    """A policy's steps for a worker that has served."""
    heap = policy.heap
    if "trace-code" in heap:
        # Without a trace all code seems to have run.
        heap = tuple("gather-code" if step == "trace-code" else step for step in heap)
    else:
        heap = tuple(step for step in heap if step != "gather-code")
    return dataclasses.replace(policy, prepare=(), heap=heap)


def make_mold(policy: Policy, look: Callable[[], Sequence[Hazard]] = survey.survey) -> SealReport:
    """Close connections, look for hazards, and take the policy's heap steps. In the worker.

    Threads are checked before other hazards: their end closes their connections.

    Raises:
        Refused: a hazard of a fork is open or runs, or a step failed.
    """
    reason = close.unsafe_reason()
    if reason is not None:
        raise Refused(f"the application is no longer safe to fork: {reason}")
    _, problems = close.close_connections()
    if problems:
        raise Refused(problems[0])
    found = survey.survey_without_garbage(look)
    if found:
        first = min(found, key=lambda hazard: hazard.kind is not Reason.THREAD)
        raise Refused(str(dataclasses.replace(first, hint=_HINTS.get(first.hint, first.hint))))
    generators.settle()
    exit.take_over_files()  # only this process has its requests' output
    global _blocks_when_plugged
    plugs, heap = _is_worth_plugging(), policy.heap
    if not plugs:
        heap = tuple(step for step in heap if not HEAP_STEPS[step].holds_plugs)
    report = seal(dataclasses.replace(policy, heap=heap))
    if heap and not report.sealed:
        raise Refused(f"not sealed: {report.reason}")
    if plugs:
        _blocks_when_plugged = sys.getallocatedblocks()
    streams.note()
    # The seal's survey lacks the hazards of `look`.
    steps = tuple(step for step in report.steps if step.name != "survey")
    return dataclasses.replace(report, steps=steps)


def _is_worth_plugging() -> bool:
    """Whether enough was allocated since holes were last plugged.

    Workers took fresh memory from the system for it. Its pages with few objects cost as much as
    fresh ones when written, while plugs stay allocated in all later generations.
    """
    blocks = sys.getallocatedblocks()
    if not blocks or _blocks_when_plugged is None:  # not pymalloc, or never plugged
        return True
    return blocks - _blocks_when_plugged >= WORTH_PLUGGING_BLOCKS


def fork_for(
    channel: Channel, before_fork: Callable[[Start], Any], alive: Callable[[], None], idle_s: float
) -> Start | None:
    """Fork a worker for each order, until the channel is closed.

    Args:
        before_fork: makes the server's object for the worker, whose `tmp` is a file.
        alive: called at least every `idle_s` seconds.

    Returns:
        In each new worker, as soon as the server knows it; in the mold itself None, when it is to
        end.
    """
    server = os.getppid()
    while True:
        alive()
        message = channel.receive(idle_s)
        if message is None:
            continue
        if message.word != "spawn":
            return None
        if len(message.files) < _FILES:  # this process has too few descriptors left
            for file in message.files:
                os.close(file)
            channel.send("not spawned", why="too many open files", for_now=True)
            continue
        channels, *files = message.files
        values = {**message.values, "slot": Slot(*message.values["slot"])}
        start = Start(channel_of(channels), **values, files=tuple(files))
        try:
            start.worker = before_fork(start)
            is_worker = fork_orphan()
        except Exception as error:
            channel.send(
                "not spawned",
                why=f"{type(error).__name__}: {error}",
                for_now=error.for_now if isinstance(error, ForkFailed) else is_shortage(error),
            )
            is_worker = False
        for file in start.files:
            os.close(file)
        if is_worker:
            channel.close()
            _introduce(start.channel, server)
            recorder.begin(start.slot)
            return start
        start.channel.close()
        if start.worker is not None:
            start.worker.tmp.close()


def fork_orphan() -> bool:
    """Fork a process that becomes the server's child. Returns True in the child, else False.

    It is forked twice, and the process in between ends at once. This leaves an orphan, which the
    kernel gives to the server. Raises ForkFailed in the mold.
    """
    # An ending signal's handler raises, and Python ignores errors in the hooks of a fork.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        with inherited.passed_on():
            between = os.fork()
        if between == 0:
            try:
                grandchild = os.fork()
            except OSError as error:
                os._exit(_SHORTAGE if is_shortage(error) else 1)
            except BaseException:
                os._exit(1)
            if grandchild:
                os._exit(0)
            return True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    deadline = time.monotonic() + FORK_S
    while True:
        ended, status = os.waitpid(between, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(between, 9)
            os.waitpid(between, 0)
            raise ForkFailed(f"no fork in {FORK_S:.0f} s", for_now=False)
        time.sleep(_POLL_S)
    if status:
        for_now = os.waitstatus_to_exitcode(status) == _SHORTAGE
        raise ForkFailed("the second fork failed", for_now=for_now)
    return False


def _introduce(channel: Channel, server: int) -> None:
    """Wait until the server is the parent and knows this process; end if that fails."""
    deadline = time.monotonic() + FORK_S
    while os.getppid() != server:
        if time.monotonic() > deadline or channel.receive(_POLL_S) == CLOSED:
            os._exit(1)
    channel.send("spawned")  # the kernel adds the sender
    answer = channel.receive(FORK_S)
    if answer is None or answer.word != "go":
        os._exit(1)
