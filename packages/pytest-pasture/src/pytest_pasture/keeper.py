"""The kept process: a mold that is sealed and, between runs, waits for the next one.

Each run has a process of its own, forked from here, in which the mold goes on. Nothing of a run is
left here: no test, no option, no open file.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import NoReturn

from pasture.sealing import exit
from pytest_pasture import exits, keep, loops
from pytest_pasture.collection import Collection
from pytest_pasture.control import Anew, Channel, Hello, Kept, Stop
from pytest_pasture.inputs import Changes, Inputs
from pytest_pasture.recollection import Collected, suffixes

_MESSAGE_LIMIT_S = 5.0


class Keeper:
    """Of one mold; made in the controller, before the fork."""

    def __init__(
        self,
        limit_s: float,  # for how long no run may use it
        place: keep.Place,
        hello: Hello,
        inputs: Inputs,
        inherited: list[int],  # descriptors that are not this program's own
    ) -> None:
        self.place = place
        self.hello = hello
        self.inputs = inputs
        self.inherited = inherited
        self.limit_s = limit_s
        self.changes = Changes((), ())
        self.children: dict[int, int] = {}  # descriptor of the process of a run, pid
        self.since = time.monotonic()

    def look(self, mold: Collection) -> None:
        """Note what the collection depends on; before the seal."""
        session = mold.interactor.session
        self.collected = Collected(session)
        inipath = session.config.inipath
        more = [node.path for node in self.collected.items] + ([inipath] if inipath else [])
        self.snapshot = self.inputs.snapshot(more, suffixes(self.collected.items))

    def serve(self, mold: Collection) -> bool:
        """Keep this process; returns in one process for each run: whether it is a later one.

        Raises:
            OSError: this process cannot be kept, and goes on as that of the first run.
        """
        listener = self.place.listen()
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        later = self._fork(None)
        if later:
            mold.control.close()
            os.close(mold.first_socket)
            mold.standard.let_go()
            self.since = time.monotonic()
            mold.control = self._next_run(mold, listener)
            mold.standard.take_stderr(self.stderr)
        listener.close()
        self._become_run(mold, later)
        signal.signal(signal.SIGINT, interrupt)
        return later

    def _next_run(self, mold: Collection, listener: socket.socket) -> Channel:
        """Wait for greetings; returns in the process of a run, and ends this one if it is not
        wanted any more."""
        used = time.monotonic()
        while self._wait(listener, used):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(_MESSAGE_LIMIT_S)
                channel = Channel(connection)
                hello = channel.receive() if keep.is_own_user(connection) else None
                if isinstance(hello, Hello) and len(channel.descriptors) == 2:
                    reason = self._against(hello)
                    if reason is None:
                        if not self._fork(channel):
                            control, self.stderr = channel.descriptors
                            self.hello = hello
                            return Channel(socket.socket(fileno=control))
                    else:
                        self._end(mold, listener, channel, reason)
                elif isinstance(hello, Stop):
                    self._end(mold, listener, channel, "it was asked to end")
                for descriptor in channel.descriptors:
                    os.close(descriptor)
            used = time.monotonic()
        self._end(mold, listener, None, "")

    def _against(self, hello: Hello) -> str | None:
        self.changes = self.snapshot.changes()
        return keep.difference(self.hello, hello) or self.collected.reason_for_all(
            self.changes, self.snapshot
        )

    def _fork(self, channel: Channel | None) -> bool:
        """Whether this is the process that is kept."""
        try:
            pid = os.fork()
        except OSError as error:
            if channel is None:
                raise
            with suppress(OSError):
                channel.send(Anew(f"it cannot fork: {error.strerror}"))
            return True
        if pid:
            self.children[os.pidfd_open(pid)] = pid
            if channel is not None:
                with suppress(OSError):
                    channel.send(Kept(pid))
        return bool(pid)

    def _wait(self, listener: socket.socket, used: float) -> bool:
        """Until there is a greeting; whether there is one, before nothing ran for too long."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        for child in self.children:
            poll.register(child, select.POLLIN)
        while True:
            left_s = used + self.limit_s - time.monotonic()
            ready = {one for one, _ in poll.poll(None if self.children else max(0, left_s * 1000))}
            if listener.fileno() in ready:
                return True
            for child in ready:
                poll.unregister(child)
                self._reap(child)
                used = time.monotonic()
            if not ready:
                return False

    def _reap(self, child: int) -> None:
        os.waitpid(self.children.pop(child), 0)
        os.close(child)

    def _end(
        self, mold: Collection, listener: socket.socket, channel: Channel | None, reason: str
    ) -> NoReturn:
        """Take no more runs, and leave when the last one has ended."""
        listener.close()
        if channel is not None:
            with suppress(OSError):
                channel.send(Anew(reason))
            channel.close()
            for descriptor in channel.descriptors:
                os.close(descriptor)
        for child in list(self.children):
            self._reap(child)
        mold.shared.tear_down()
        exit.leave(0)

    def _become_run(self, mold: Collection, later: bool) -> None:
        for child in self.children:
            os.close(child)
        self.children.clear()
        exits.leave_to_parent()
        mold.shared.disown()
        loops.renew(mold.loops)
        if not later:
            with suppress(OSError):
                mold.control.send(Kept(os.getpid()))
        keep.take_terminal(self.hello.environment)
