"""Images at `pasture-python` itself: mutated descriptions, and files in memory that are no parts.

This process stands in for the server and has an image that a real one made. Whatever it hands out,
the program must run once and as `python` runs it: out of the image, or by the interpreter.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pasture_zygote import memory

BIN = Path(sys.executable).parent
PYTHON, STUB = str(BIN / "python"), str(BIN / "pasture-python")
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
PROGRAM = ("-c", "import json; print(json.dumps([1]))")
MAX_S = 30.0

Change = Callable[[list[int]], list[int]]


def sealed(data: bytes, seals: int = SEALS) -> int:
    number = memory.written("part", data)
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
    return number


def _as_they_are(numbers: list[int]) -> list[int]:
    return [os.dup(number) for number in numbers]


def _one_missing(numbers: list[int]) -> list[int]:
    return _as_they_are(numbers[:-1])


def _in_another_order(numbers: list[int]) -> list[int]:
    return _as_they_are([numbers[0], *reversed(numbers[1:])])


def _another_file(numbers: list[int]) -> list[int]:
    """As large as the right one."""
    number = memory.create("part")
    os.ftruncate(number, os.fstat(numbers[-1]).st_size)
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, SEALS)
    return [*_as_they_are(numbers[:-1]), number]


def _not_sealed(numbers: list[int]) -> list[int]:
    return [*_as_they_are(numbers[:-1]), memory.written("part", b"x" * 4096)]


def _a_device(numbers: list[int]) -> list[int]:
    return [*_as_they_are(numbers[:-1]), os.open("/dev/zero", os.O_RDONLY)]


def _many(numbers: list[int]) -> list[int]:
    return _as_they_are([*numbers, *numbers * 60][:120])


CHANGES: tuple[Change, ...] = (
    *(_one_missing, _in_another_order, _another_file, _not_sealed, _a_device, _many),
    *(_as_they_are,) * 6,
)


class Images:
    """A server with one image, which it hands out in many ways."""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        kept = ("PATH", "LANG", "HOME")
        self._environ = {k: v for k, v in os.environ.items() if k in kept}
        self._environ["XDG_RUNTIME_DIR"] = str(folder)
        self._numbers = self._image_of_a_real_server(folder)
        self._description = os.pread(self._numbers[0], os.fstat(self._numbers[0]).st_size, 0)
        path = folder / "pasture" / "zygote"
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self._listener.settimeout(MAX_S)

    def _image_of_a_real_server(self, folder: Path) -> list[int]:
        def zygote(*words: str) -> None:
            command = [PYTHON, "-m", "pasture", "zygote", *words]
            subprocess.run(command, env=self._environ, check=True, stdout=subprocess.DEVNULL)

        zygote("start", "--name", "x", "--preload", "json")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(folder / "pasture" / "zygote"))
            client.send(f"run 2\0x\0{PYTHON}\0\0".encode())
            said, numbers, _, _ = socket.recv_fds(client, 4096, 64)
        assert said == b"serve x", said
        zygote("stop")
        return numbers

    def sample(self, random: Random) -> bytes:
        return self._description

    def take(self, data: bytes, random: Random) -> None:
        change = random.choice(CHANGES)
        manifest = sealed(data or b"x", SEALS if random.randrange(20) else 0)
        numbers = change([manifest, *self._numbers[1:]])
        program = subprocess.Popen(
            [STUB, *PROGRAM], env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            said = self._serve(numbers)
            out, err = program.communicate(timeout=MAX_S)
        finally:
            program.kill()
            for number in (manifest, *numbers):
                os.close(number)
        assert (program.returncode, out, err) == (0, b"[1]\n", b""), (program.returncode, out, err)
        is_right = data == self._description and change in (_as_they_are,)
        assert said != "taken" or is_right or change is _in_another_order, (change, data[:80])
        self.outcomes[said] += 1

    def _serve(self, numbers: list[int]) -> str:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(MAX_S)
            connection.recv(1 << 16)
            socket.send_fds(connection, [b"serve x"], numbers)
            return connection.recv(4096).decode(errors="replace") or "said nothing"

    def close(self) -> None:
        self._listener.close()
        for number in self._numbers:
            os.close(number)


@contextmanager
def open_target() -> Iterator[Images]:
    with tempfile.TemporaryDirectory() as folder:
        images = Images(Path(folder))
        yield images
        images.close()
