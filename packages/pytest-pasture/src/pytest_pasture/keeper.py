"""The kept process: a mold that is sealed and, between runs, waits for the next one.

Each run has a process of its own, forked from here, in which the mold goes on. Nothing of a run is
left here: no test, no option, no open file.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from pasture.sealing import exit
from pytest_pasture import exits, keep, loops
from pytest_pasture.collection import Collection
from pytest_pasture.control import Channel, Hello, Kept
from pytest_pasture.inputs import Changes, Inputs
from pytest_pasture.recollection import Collected, conftests
from pytest_pasture.waiting import Waiting


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
        self.since = time.monotonic()

    def look(self, mold: Collection) -> None:
        """Note what the collection depends on; before the seal."""
        session = mold.interactor.session
        self.collected = Collected(session)
        inipath = session.config.inipath
        files = [node.path for node in self.collected.items]
        self.snapshot = self.inputs.snapshot(
            files + ([inipath] if inipath else []),
            {path.suffix for path in files},
            conftests(session.config),
        )

    def serve(self, mold: Collection) -> bool:
        """Keep this process; returns in one process for each run: whether it is a later one.

        Raises:
            OSError: this process cannot be kept, and goes on as that of the first run.
        """

        def against(hello: Hello) -> str | None:
            self.changes = self.snapshot.changes()
            reason = keep.difference(self.hello, hello)
            return reason or self.collected.reason_for_all(self.changes, self.snapshot)

        waiting = Waiting(self.place.listen(), self.limit_s, against)
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        later = waiting.fork() != 0
        if later:
            mold.control.close()
            for descriptor in mold.first_sockets:
                os.close(descriptor)
            mold.standard.let_go()
            self.since = time.monotonic()
            run = waiting.serve()
            if run is None:
                mold.shared.tear_down()
                exit.leave(0)
            self.hello, (control, stderr) = run
            mold.control = Channel(socket.socket(fileno=control))
            mold.standard.take_stderr(stderr)
        exits.leave_to_parent()
        mold.shared.disown()
        loops.renew(mold.loops)
        if not later:
            with suppress(OSError):
                mold.control.send(Kept(os.getpid()))
        keep.take_terminal(self.hello.environment)
        signal.signal(signal.SIGINT, interrupt)
        return later
