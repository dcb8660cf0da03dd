"""Processes that make images: started, listened to, and ended.

A zygote without a base is made by the interpreter itself, another by `pasture-python` out of its
base. The process has its zygote's environment, and descriptors of a socket and the log alone.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pasture.errors import ZygoteFailed
from pasture.zygote.orders import Built, Order, receive_built, send
from pasture.zygote.tree import Plan, Zygote

_PROGRAM = "import pasture.zygote.builder as b; b.main()"
_PATIENCE_S = 20.0
STUB = "pasture-python"


class Build:
    """One process that makes one image.

    Attributes:
        channel: to it; can be read when it has something to say, or has ended.
        zygote: that it makes.
    """

    def __init__(self, zygote: Zygote, base: Zygote | None, log: int) -> None:
        """Start it.

        Raises:
            ZygoteFailed: it cannot be started.
        """
        self.zygote = zygote
        plan = zygote.plan
        self.channel, theirs = socket.socketpair()
        program = plan.python if base is None else str(stub_of(plan.python))
        command = [program, *plan.options, "-c", _PROGRAM, str(theirs.fileno())]
        try:
            self.process = subprocess.Popen(
                command,
                env=_environ(plan, base),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        except (OSError, ValueError) as error:
            self.channel.close()
            raise ZygoteFailed(f"{program} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._send(plan, base)

    def _send(self, plan: Plan, base: Zygote | None) -> None:
        images = list(base.images) if base is not None else []
        variables = base.built.variables if base is not None else {}
        order = Order(plan.preload, plan.python, plan.options, dict(variables), plan.rehearse)
        try:
            send(self.channel, order, images)
        except OSError:
            pass  # it has ended: `receive` tells

    def receive(self) -> tuple[Built, list[int]]:
        """What it made, with the descriptors of manifest and pages; the process is gone then."""
        self.channel.settimeout(_PATIENCE_S)
        try:
            return receive_built(self.channel)
        except (OSError, EOFError, ValueError):
            return Built(
                problem="the process that loads the modules ended", hint="the log says why"
            ), []
        finally:
            self.end()

    def end(self) -> None:
        """End it, whatever it does."""
        self.channel.close()
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def _environ(plan: Plan, base: Zygote | None) -> Mapping[str, str]:
    """Functions of libraries are looked up for the image: a look-up at the first call, in each
    program anew, touches pages all over the libraries."""
    if base is None:
        return {**plan.environ, "LD_BIND_NOW": "1"}
    return {**plan.environ, "PASTURE_ZYGOTE": base.plan.name, "PASTURE_PYTHON": plan.python}


def stub_of(python: str) -> Path:
    """The stub that stands beside an interpreter.

    Raises:
        ZygoteFailed: there is none.
    """
    path = Path(python).with_name(STUB)
    if not os.access(path, os.X_OK):
        raise ZygoteFailed(
            f"there is no {STUB} beside {python}",
            hint="install pasture into the environment of that interpreter",
        )
    return path
