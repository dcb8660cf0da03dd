"""The process that makes an image: started, listened to, and ended.

It runs under a recorder (src/stub/record.c), and has descriptors of a socket and of standard error
alone. Of the image's environment it has what matters to every start, and asks for the rest
(`variables`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pasture.errors import ImageFailed
from pasture.proc import memory_file
from pasture.proc.tree import children
from pasture_image.inside import environment
from pasture_image.inside.order import Built, Order, receive_built, send
from pasture_image.inside.start_variables import started_with

_PROGRAM = """\
exec('''
import sys
sys.modules.pop("linecache", None)
at_start = {*sys.modules}
import pasture_image.inside.eager
pasture_image.inside.eager.begin()
import pasture_image.inside.loading
stopping = pasture_image.inside.loading.main()
if type(stopping) is tuple:
    import pasture_image.inside.stopped
    pasture_image.inside.stopped.wait(*stopping)
elif stopping:
    import pasture_image.build.copying
    pasture_image.build.copying.copy_and_send(stopping, at_start)
''', {})
"""
"""What it imports last comes into no image: the process that is copied has been forked by then.
`__main__` stays as empty as a program finds it. Since 3.13 `linecache` has this text, which
tracebacks would show for all code without a file: the next import has another module."""
_TIMEOUT_S = 20.0
_MAX_ROUNDS = 1000
STUB = "pasture-python"


class Build:
    """A process that makes an image.

    Attributes:
        channel: to it; can be read when it has something to say, or has ended.
    """

    def __init__(self, order: Order) -> None:
        """Start it; what modules print goes to standard error.

        Raises:
            ImageFailed: it cannot be started.
        """
        order = replace(order, folder=_folder())
        self._folder = order.folder
        self.channel, theirs = socket.socketpair()
        self._record = memory_file.create("pasture-record")
        command = [
            *(str(stub_of(order.python)), "--pasture-record", str(self._record)),
            *(order.python, *order.options, "-c", _PROGRAM, str(theirs.fileno())),
        ]
        try:
            self.process = subprocess.Popen(
                command,
                env=_environ(order),
                pass_fds=[theirs.fileno(), self._record],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                stderr=sys.stderr.fileno(),
                cwd=order.folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.channel.close()
            self._remove_folders()
            os.close(self._record)
            raise ImageFailed(f"{order.python} cannot be started: {error}") from None
        finally:
            theirs.close()
        try:
            self._send(order)
        except ConnectionError:  # it has ended, or does now, and `receive` says so
            self.channel.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.end()
            raise ImageFailed(f"{order.python} cannot get what to load: {error}") from None
        finally:
            os.close(self._record)

    def _send(self, order: Order) -> None:
        environ = memory_file.create("pasture-environment")
        try:
            environment.write(order.environ, environ)
            send(self.channel, order.for_builder, [environ, self._record])
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
                hint="see what it said above; PYTHONPATH names the folders of modules of your own",
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
        self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in (self._folder, f"{self._folder}-2"):
            shutil.rmtree(folder, ignore_errors=True)


def _folder() -> str:
    """A new, empty folder, of a name that is nowhere else; with a deeper one for a second load.

    Raises:
        ImageFailed: it cannot be made.
    """
    name = f"{tempfile.gettempdir()}/pasture-{secrets.token_hex(8)}"
    try:
        for folder in (name, f"{name}-2", f"{name}-2/{Path(name).name}-2"):
            os.mkdir(folder, 0o700)  # noqa: PTH102
    except OSError as error:
        raise ImageFailed(f"{name} cannot be made: {error.strerror}") from None
    return os.path.realpath(name)


def _environ(order: Order) -> dict[str, str]:
    """With what the process is started, which is in the memory of each program.

    Functions of libraries are looked up for the image: a look-up at the first call, in each
    program again, touches pages all over the libraries.
    """
    needed = {**started_with(order.environ, order.named), "LD_BIND_NOW": "1"}
    return {name: value for name, value in needed.items() if value is not None}


def stub_of(python: str) -> Path:
    """The stub next to an interpreter.

    Raises:
        ImageFailed: there is none.
    """
    path = Path(python).with_name(STUB)
    if not os.access(path, os.X_OK):
        raise ImageFailed(
            f"there is no {STUB} next to {python}",
            hint="install pasture[image] into the environment of that interpreter",
        )
    return path


def end_orphans() -> None:
    """End what loading has started and left: this process has adopted it, and what comes then."""
    for _ in range(_MAX_ROUNDS):
        left = set(children(os.getpid()))
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
