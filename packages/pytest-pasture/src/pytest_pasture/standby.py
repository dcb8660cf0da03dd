"""The standby: a process that has loaded plug-ins and the first conftests, for later runs.

With `--keep` the controller of a later run is forked from it. The process that a user has started
hands over its streams, passes signals on, and ends as that controller ends. The standby itself runs
nothing: it is left behind before pytest reads its options to the end.

Invariant: a controller out of a standby has what its run would have loaded itself, or there is
none: what conftests made that no child can have, and what has changed since, are looked at first.
"""

from __future__ import annotations

import copy
import os
import select
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import pytest

from pasture.proc.parent import end_with_parent
from pytest_pasture import cards, exits, keep, streams
from pytest_pasture.control import Anew, Channel, Ended, Hello, Kept, Signal, Stop
from pytest_pasture.inputs import Inputs

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOADERS = ("_pytest", "pytest_pasture", "xdist", "pytest_django")
"""Packages whose work on the first conftests is the same for each run with the same options."""
_MESSAGE_LIMIT_S = 5.0


def is_for(config: pytest.Config) -> bool:
    """Whether a run can have a controller out of a standby: one with workers, of a command."""
    options = config.known_args_namespace
    return (
        bool(options.pasture_keep and (getattr(options, "numprocesses", None) or options.tx))
        and not (options.pasture_keep_stop or options.help or options.version)
        and not (options.collectonly or options.usepdb or getattr(options, "looponfail", False))
        and not config.invocation_params.plugins
        and list(config.invocation_params.args) == sys.argv[1:]
        and None not in (sys.stdin, sys.stdout, sys.stderr)
        and _is_command()
        and not _is_traced()
    )


def _is_command() -> bool:
    """Whether nothing but pytest runs in this process: no program that calls it, too."""
    frame, caller = sys._getframe(), None
    while frame.f_back is not None and frame.f_globals.get("__name__") != "__main__":
        caller, frame = frame, frame.f_back
    return (
        caller is not None
        and frame.f_code.co_name == "<module>"
        and caller.f_globals.get("__name__") == "_pytest.config"
        and caller.f_code.co_name.endswith("console_main")
    )


def _is_traced() -> bool:
    """Whether a debugger, a profiler or a measurement of coverage has been started already."""
    monitoring = getattr(sys, "monitoring", None)
    tools = monitoring and any(monitoring.get_tool(one) for one in range(6))
    return bool(tools or sys.gettrace() or sys.getprofile())


class Standby:
    """Of one run; made before its first conftest is imported."""

    def __init__(self, config: pytest.Config, words: list[str]) -> None:
        self.config = config
        self.words = words  # those that pytest goes on with
        self.place = keep.standby_of(config, words)
        self.hello = Hello({}, dict(os.environ), keep.conditions(), tuple(words), tuple(sys.argv))
        self.made = streams.Made()
        self.finalizers = _finalizers()

    def hand_over(self) -> None:
        """Have a standby serve the run, and leave; returns if there is none that does."""
        _flush()
        try:
            connection = self.place.connect()
            if connection is None:
                return
            channel = Channel(connection)
            channel.send(self.hello, 0, 1, 2)
        except OSError:  # nor is there a collection: the run says why
            return
        with connection:
            if isinstance(channel.receive(), Kept):
                connection.settimeout(None)
                _follow(channel)

    def leave(self, inputs: Inputs, inherited: list[int]) -> None:
        """Leave a standby behind; returns here, and in the controller of each later run.

        Args:
            inputs: what was looked at so far.
            inherited: descriptors that are not this program's own; none is left of them there.
        """
        made = self.made.more(self.config) or _finalizers() - self.finalizers
        if made or not self._is_alike():
            return
        limit_s = keep.limit_s(self.config)
        _flush()
        if pid := os.fork():
            os.waitpid(pid, 0)
            return
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            while inherited:  # in a controller these numbers are other files'
                os.close(inherited.pop())
            exits.leave_to_parent()
            standing = _Standing(self, inputs, limit_s)
            hello, descriptors = standing.serve()
        except BaseException:  # it cannot stand by: the next run is served by none
            os._exit(1)
        self._become_controller(hello, descriptors, inputs)

    def _is_alike(self) -> bool:
        """Whether no other package works on the first conftests."""
        measured = getattr(self.config.known_args_namespace, "cov_source", None)
        hooks = self.config.hook.pytest_load_initial_conftests.get_hookimpls()
        packages = {one.function.__module__.partition(".")[0] for one in hooks}
        return packages <= {*_LOADERS, *(() if measured else ("pytest_cov",))}

    def _become_controller(self, hello: Hello, descriptors: list[int], inputs: Inputs) -> None:
        config = self.config
        streams.take(config, descriptors)
        keep.take_terminal(hello.environment)
        sys.argv[:] = hello.argv
        self.words[:] = hello.words
        config.invocation_params = config.InvocationParams(
            args=hello.argv[1:], plugins=None, dir=config.invocation_params.dir
        )
        above = config.known_args_namespace.confcutdir
        config.known_args_namespace = config._parser.parse_known_args(
            self.words, namespace=copy.copy(config.option)
        )
        if config.known_args_namespace.confcutdir is None:
            config.known_args_namespace.confcutdir = above
        cards.in_controller(config)
        inputs.start()


@dataclass(slots=True)
class _Run:
    """A controller, inputs from the standby."""

    pid: int
    process: int  # its descriptor
    channel: Channel  # to the process that a user has started
    is_watched: bool = True  # that process is there


class _Standing:
    """The standby, between its fork and its end."""

    def __init__(self, standby: Standby, inputs: Inputs, limit_s: float) -> None:
        self.hello = standby.hello
        self.inputs = inputs
        self.limit_s = limit_s
        inipath = standby.config.inipath
        self.snapshot = inputs.snapshot([inipath] if inipath else [], ())
        self.listener: socket.socket | None = standby.place.listen()
        streams.Standard().let_go()
        self.runs: list[_Run] = []

    def serve(self) -> tuple[Hello, list[int]]:
        """Returns in each controller: its run, and its standard streams."""
        used = time.monotonic()
        while self.listener is not None or self.runs:
            ready = self._ready(used)
            if not ready:
                self._take_no_more()
            elif self.listener is not None and self.listener.fileno() in ready:
                if (run := self._greeted(self.listener)) is not None:
                    return run
            for run_ in list(self.runs):
                if run_.process in ready:
                    self._reap(run_)
                elif run_.channel.socket.fileno() in ready:
                    self._pass_on(run_)
            used = time.monotonic()
        os._exit(0)

    def _ready(self, used: float) -> set[int]:
        poll = select.poll()
        for descriptor in self._descriptors():
            poll.register(descriptor, select.POLLIN)
        left_s = max(0.0, used + self.limit_s - time.monotonic())
        return {one for one, _ in poll.poll(None if self.runs else left_s * 1000)}

    def _descriptors(self) -> Iterator[int]:
        if self.listener is not None:
            yield self.listener.fileno()
        for run in self.runs:
            yield run.process
            if run.is_watched:
                yield run.channel.socket.fileno()

    def _greeted(self, listener: socket.socket) -> tuple[Hello, list[int]] | None:
        connection, _ = listener.accept()
        connection.settimeout(_MESSAGE_LIMIT_S)
        channel = Channel(connection)
        hello = channel.receive() if keep.is_own_user(connection) else None
        descriptors = channel.descriptors
        started_ns = time.time_ns()
        answer: Anew | None = None
        if isinstance(hello, Stop):
            answer = Anew("it was asked to end")
        elif isinstance(hello, Hello) and len(descriptors) == 3:
            reason = keep.difference(self.hello, hello)
            if reason is not None or self.snapshot.changes():
                answer = Anew(reason or "files have changed")
            elif self._fork(channel):
                _close(descriptors)
                return None
            else:
                connection.close()
                self.inputs.started_ns = started_ns
                return hello, descriptors
        if answer is not None:
            self._take_no_more()
            with suppress(OSError):
                channel.send(answer)
        _close(descriptors)
        connection.close()
        return None

    def _fork(self, channel: Channel) -> bool:
        """Whether this is the standby, and not the controller that it has forked for a run."""
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            with suppress(OSError):
                channel.send(Anew(f"it cannot fork: {error.strerror}"))
            channel.close()
            return True
        if pid:
            with suppress(OSError):  # here too: a signal for the group may come at once
                os.setpgid(pid, pid)
            self.runs.append(_Run(pid, os.pidfd_open(pid), channel))
            with suppress(OSError):
                channel.send(Kept(pid))
            return True
        end_with_parent(parent)
        os.setpgid(0, 0)
        self._take_no_more()
        for run in self.runs:
            os.close(run.process)
            run.channel.close()
        return False

    def _take_no_more(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def _pass_on(self, run: _Run) -> None:
        """A signal from the process that a user has started; all of them once that is gone."""
        message = run.channel.receive()
        if isinstance(message, Signal):
            number = message.number
        else:
            number, run.is_watched = signal.SIGKILL, False
        with suppress(OSError):  # not waited for yet, so the group is still its own
            os.killpg(run.pid, number)

    def _reap(self, run: _Run) -> None:
        _, status = os.waitpid(run.pid, 0)
        with suppress(OSError):
            run.channel.send(Ended(status))
        run.channel.close()
        os.close(run.process)
        self.runs.remove(run)


def _follow(channel: Channel) -> NoReturn:
    """Pass signals on to the controller that serves this run, and end as it ends."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            channel.send(Signal(number))

    def stop(number: int, frame: FrameType | None) -> None:
        pass_on(signal.SIGSTOP, frame)
        os.kill(os.getpid(), signal.SIGSTOP)
        pass_on(signal.SIGCONT, frame)

    for number in _PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    ended = channel.receive()
    if not isinstance(ended, Ended):
        print("pasture: the kept process that served this run has ended", file=sys.stderr)
        raise SystemExit(int(pytest.ExitCode.INTERNAL_ERROR))
    status = os.waitstatus_to_exitcode(ended.status)
    if status < 0 and -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    if status < 0:
        os.kill(os.getpid(), -status)
    raise SystemExit(status)


def _finalizers() -> set[object]:
    """What ends with this process."""
    found: Any = weakref.finalize
    return {one for one in list(found._registry) if one.atexit}


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
