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
import signal
import sys
import time
import weakref
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import pytest

from pasture.proc.parent import end_with_parent
from pytest_pasture import cards, exits, keep, streams
from pytest_pasture.control import Channel, Ended, Hello, Kept, Signal
from pytest_pasture.inputs import Inputs
from pytest_pasture.recollection import conftests
from pytest_pasture.waiting import Run, Waiting

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOADERS = ("_pytest", "pytest_pasture", "xdist", "pytest_django")
"""Packages whose work on the first conftests is the same for each run with the same options."""


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
            run = self._wait(inputs, limit_s)
        except BaseException:  # there is no standby: the next run is served by none
            os._exit(1)
        if run is None:
            os._exit(0)
        self._become_controller(*run, inputs)

    def _wait(self, inputs: Inputs, limit_s: float) -> Run | None:
        """Serve runs; returns in their processes, and with None at the end."""
        inipath = self.config.inipath
        ini = [inipath] if inipath else []
        snapshot = inputs.snapshot(ini, (), conftests(self.config))

        def against(hello: Hello) -> str | None:
            inputs.started_ns = time.time_ns()  # of the controller that may be forked now
            reason = keep.difference(self.hello, hello)
            return reason or ("files have changed" if snapshot.changes() else None)

        waiting = Waiting(self.place.listen(), limit_s, 3, against, watches=True)
        streams.Standard().let_go()
        own = os.getpid()
        if (run := waiting.serve()) is not None:
            end_with_parent(own)
        return run

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
        cards.take("in_controller", config)
        inputs.start()


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
