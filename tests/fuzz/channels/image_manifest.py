"""Descriptions of images, mutated, at the reader of `pasture-python`, built with sanitizers.

The reader belongs to a program that may run anything, so it must read no byte outside of the
description, and accept none that its other parts could not use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from manifests import manifest

STUB = Path(__file__).parents[3] / "packages" / "image" / "src" / "stub"
SANITIZERS = "-fsanitize=address,undefined"
SAMPLES = 200
AS_IT_CAME = 1  # in so many of 8 the checksum is as it came


class Reader:
    """The reader, which gets one after the other."""

    def __init__(self, program: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self._samples = [manifest(Random(number)) for number in range(SAMPLES)]
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def sample(self, random: Random) -> bytes:
        return random.choice(self._samples)

    def take(self, data: bytes, random: Random) -> None:
        data = data[: len(data) & -8] if random.randrange(4) else data
        is_corrected = random.randrange(8) >= AS_IT_CAME
        assert self._process.stdin is not None and self._process.stdout is not None
        frame = len(data).to_bytes(8, "little") + bytes([is_corrected]) + data
        try:
            while frame:
                frame = frame[self._process.stdin.write(frame) or 0 :]
            said = self._process.stdout.read(1)
        except BrokenPipeError:
            said = b""
        if said not in (b"a", b"r"):
            raise AssertionError(f"the reader ended: {self._process.wait()}")
        self.outcomes["accepted" if said == b"a" else "refused"] += 1

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        if self._process.wait() != 0:
            raise AssertionError(f"the reader found a flaw of its own: {self._process.returncode}")


def compiled(folder: Path) -> Path:
    """The reader as a program; without sanitizers where the compiler has none."""
    program = folder / "manifest_reader"
    sources = [Path(__file__).with_name("manifest_reader.c"), STUB / "manifest.c", STUB / "rules.c"]
    command = ["cc", "-std=c11", "-g", "-O1", f"-I{STUB}", "-o", program, *sources]
    for more in ([SANITIZERS, "-fno-sanitize-recover=all"], []):
        if subprocess.run([*command, *more], capture_output=bool(more)).returncode == 0:
            return program
    raise AssertionError("the reader cannot be compiled")


@contextmanager
def open_target() -> Iterator[Reader]:
    assert shutil.which("cc"), "needs a C compiler"
    with tempfile.TemporaryDirectory() as folder:
        own = os.environ.get("MANIFEST_READER")  # as `make coverage` builds it
        reader = Reader(Path(own) if own else compiled(Path(folder)))
        yield reader
        reader.close()
