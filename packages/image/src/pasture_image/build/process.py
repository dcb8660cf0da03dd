"""The process that makes an image: started, listened to, and ended.

It runs under a recorder (src/stub/record.c), and has descriptors of a socket, of files in memory
(`FILES`) and of standard error alone. Of the image's environment it has what matters to every
start, and asks for the rest (`variables`).
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from pasture.errors import ImageFailed
from pasture.proc import memory_file
from pasture.proc.tree import children
from pasture_image.inside import environment, memory, start_files
from pasture_image.inside.order import Built, Order, receive_built
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
_MAX_BUILD_S = 1800.0
"""torch._dynamo takes 40 s of processor time, of which a busy machine gives little."""
_MAX_ROUNDS = 1000
STUB = "pasture-python"
FILES = ("order", "environment", "record", "output", "errors")
"""In memory, and the builder's from its start."""


class Build:
    """A process that makes an image."""

    def __init__(self, order: Order) -> None:
        """Start it; what modules print goes to standard error.

        Raises:
            ImageFailed: it cannot be started.
        """
        recorder = str(stub_of(order.python)), "--pasture-record"
        self._temporary, folder = _folders()
        order = dataclasses.replace(order, folder=folder)
        self._channel, theirs = socket.socketpair()
        files: list[int] = []
        try:
            files += (memory_file.create(f"pasture-{name}") for name in FILES)
            record = os.dup(files[FILES.index("record")])
            files.append(record)
            memory.fill(files[0], marshal.dumps(dataclasses.asdict(order.for_builder)))
            environment.write(order.environ, files[1])
            given = ",".join(map(str, (theirs.fileno(), *files[:-1])))
            self.process = subprocess.Popen(
                (*recorder, str(record), order.python, *order.options, "-c", _PROGRAM, given),
                env=_environ(order), pass_fds=[theirs.fileno(), *files],
                stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), stderr=sys.stderr.fileno(),
                cwd=order.folder, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._channel.close()
            self._temporary.cleanup()
            raise ImageFailed(f"{order.python} cannot be started: {error}") from None
        finally:
            theirs.close()
            for number in files:
                os.close(number)

    def receive(self) -> tuple[Built, list[int]]:
        """What it made, with the descriptors of manifest and pages.

        Raises:
            ImageFailed: it has ended without that, or takes too long.
        """
        self._channel.settimeout(_MAX_BUILD_S)
        try:
            return receive_built(self._channel)
        except TimeoutError:
            raise ImageFailed(f"loading takes more than {_MAX_BUILD_S:g} s") from None
        except (OSError, EOFError, ValueError, TypeError, RecursionError):
            raise ImageFailed(
                "the process that loads the modules ended",
                hint="see what it said above; PYTHONPATH names the folders of modules of your own",
            ) from None

    def end(self) -> None:
        """End it, whatever it does, with all processes of its group."""
        self._channel.close()
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._temporary.cleanup()


def _folders() -> tuple[tempfile.TemporaryDirectory[str], str]:
    """New, empty folders (`new_folders`), and the deepest; they go with the first, in any case.

    Raises:
        ImageFailed: they cannot be made.
    """
    try:
        temporary = tempfile.TemporaryDirectory(prefix="pasture-", ignore_cleanup_errors=True)
        deepest = Path(temporary.name).resolve().joinpath(*(secrets.token_hex(8) for _ in range(2)))
        deepest.mkdir(0o700, parents=True)
    except OSError as error:
        raise ImageFailed(f"a temporary folder cannot be made: {error.strerror}") from None
    return temporary, str(deepest)


def _environ(order: Order) -> dict[str, str]:
    """With what the process is started, which is in the memory of each program.

    Functions of libraries are looked up for the image: a look-up at the first call, in each
    program again, touches pages all over the libraries.
    """
    needed = {**started_with(order.environ, order.named), "LD_BIND_NOW": "1"}
    named = start_files.names(of_modules=False)
    needed |= {n: v for n, v in order.environ.items() if n in named}
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
