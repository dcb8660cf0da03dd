"""Processes that make images: started, listened to, and ended.

A zygote without a base is made by the interpreter itself, another by `pasture-python` out of its
base. The process has descriptors of a socket and the log alone. Of its zygote's environment it has
what matters to every start, and asks for the rest (`variables`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pasture.errors import ZygoteFailed
from pasture.proc import memory_file
from pasture_zygote import starter
from pasture_zygote.orders import Built, FileOrder, Order, receive_built, send
from pasture_zygote.start_variables import always_read
from pasture_zygote.tree import Plan, Zygote

_PROGRAM = "import sys; m = {*sys.modules}; import pasture_zygote.builder as b; b.main(m)"
_TIMEOUT_S = 20.0
STUB = "pasture-python"
_FOLDER = "XDG_RUNTIME_DIR"
"""Where the stub looks for the server."""


class Build:
    """One process that makes one image.

    Attributes:
        channel: to it; can be read when it has something to say, or has ended.
        zygote: that it makes.
    """

    def __init__(
        self, zygote: Zygote, base: Zygote | None, log: int, file: FileOrder | None = None
    ) -> None:
        """Start it.

        Args:
            zygote: that it makes.
            base: on top of which it makes it; None for none.
            log: descriptor for what modules print while they are loaded.
            file: of an image that goes into a file.

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
                env={**_environ(plan, base), **(file.held if file is not None else {})},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.channel.close()
            raise ZygoteFailed(f"{program} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._send(plan, base, file)

    def _send(self, plan: Plan, base: Zygote | None, file: FileOrder | None) -> None:
        images = list(base.images) if base is not None else []
        order = Order(plan.preload, plan.python, plan.options, plan.rehearse, file)
        environ = memory_file.create("pasture-environment")
        try:
            starter.write(plan.environ, environ)
            send(self.channel, order, [environ, *images])
        except OSError:  # it has ended, or there is no descriptor left
            with suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)  # it then ends, and `receive` says so
        finally:
            os.close(environ)

    def receive(self) -> tuple[Built, list[int]]:
        """What it made, with the descriptors of manifest and pages; the process is gone then."""
        self.channel.settimeout(_TIMEOUT_S)
        try:
            return receive_built(self.channel)
        except (OSError, EOFError, ValueError, RecursionError):
            return Built(
                problem="the process that loads the modules ended",
                hint="the log says why; PYTHONPATH names the folders of modules of your own",
            ), []
        finally:
            self.end()

    def end(self) -> None:
        """End it, whatever it does, with all processes of its group."""
        self.channel.close()
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _environ(plan: Plan, base: Zygote | None) -> Mapping[str, str]:
    """With what the process is started, which is in the memory of each program.

    Functions of libraries are looked up for the image: a look-up at the first call, in each
    program anew, touches pages all over the libraries.
    """
    needed = always_read(plan.environ)
    if base is None:
        found = {**needed, "LD_BIND_NOW": "1"}
    else:
        found = {**needed, **base.built.variables, "PASTURE_ZYGOTE": base.plan.name}
        found |= {"PASTURE_PYTHON": plan.python, _FOLDER: plan.environ.get(_FOLDER)}
    return {name: value for name, value in found.items() if value is not None}


def stub_of(python: str) -> Path:
    """The stub that stands beside an interpreter.

    Raises:
        ZygoteFailed: there is none.
    """
    path = Path(python).with_name(STUB)
    if not os.access(path, os.X_OK):
        raise ZygoteFailed(
            f"there is no {STUB} beside {python}",
            hint="install pasture[zygote] into the environment of that interpreter",
        )
    return path
