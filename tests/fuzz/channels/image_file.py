"""Images at `pasture-python` itself: mutated descriptions, headers, and files cut short.

The header has a checksum that is right again. Whatever the file says, the program must run once and
as `python` runs it: out of the image, or by the interpreter.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pasture_image.build.image_file import _HEADER, _Header
from pasture_image.build.manifest import checksum

BIN = Path(sys.executable).parent
PYTHON, STUB = str(BIN / "python"), str(BIN / "pasture-python")
PROGRAM = ("-c", "import json; print(json.dumps([1]))")
OS_PAGE = 4096
CHECKSUM_AT = 16
MAX_S = 300.0

Change = Callable[[_Header, Random], _Header]


def _as_it_is(header: _Header, random: Random) -> _Header:
    return header


def _another_place(header: _Header, random: Random) -> _Header:
    return header._replace(manifest_at=random.choice((0, OS_PAGE, header.manifest_at + 8, 1 << 63)))


def _another_length(header: _Header, random: Random) -> _Header:
    return header._replace(manifest_bytes=random.choice((0, 8, header.file_bytes, (1 << 64) - 8)))


def _another_size(header: _Header, random: Random) -> _Header:
    return header._replace(file_bytes=header.file_bytes + random.choice((-8, 8)))


CHANGES: tuple[Change, ...] = (*(_another_place, _another_length, _another_size), *(_as_it_is,) * 6)


class Files:
    """One image, whose header and description are written in many ways."""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self._path = folder / "x.img"
        kept = ("PATH", "LANG", "HOME")
        environ = {k: v for k, v in os.environ.items() if k in kept}
        command = [PYTHON, "-m", "pasture", "image", "build", "-o", self._path, "--preload", "json"]
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        self._environ = {
            **environ, "PASTURE_IMAGE": str(self._path), "PASTURE_IMAGE_VERBOSE": "1"
        }  # fmt: skip
        with self._path.open("rb") as file:
            self._header = _Header(*_HEADER.unpack_from(file.read(OS_PAGE)))
            file.seek(self._header.manifest_at)
            self._description = file.read(self._header.manifest_bytes)

    def sample(self, random: Random) -> bytes:
        return self._description

    def take(self, data: bytes, random: Random) -> None:
        change = random.choice(CHANGES)
        self._write(data, change, random)
        done = subprocess.run(
            [STUB, *PROGRAM], env=self._environ, capture_output=True, timeout=MAX_S, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"[1]\n"), (done.returncode, done.stderr)
        said = done.stderr.decode(errors="replace")
        is_started = "started from the image" in said and "python runs" not in said
        assert not is_started or data == self._description, data[:80]
        self.outcomes["out of the image" if is_started else "by python"] += 1

    def _write(self, description: bytes, change: Change, random: Random) -> None:
        at = self._header.manifest_at
        end = at + len(description)
        header = self._header._replace(
            checksum=0,
            file_bytes=end,
            manifest_bytes=len(description),
            document_at=end,
            document_bytes=0,
        )
        page = bytearray(OS_PAGE)
        _HEADER.pack_into(page, 0, *change(header, random))
        struct.pack_into("<Q", page, CHECKSUM_AT, checksum(page))
        with self._path.open("r+b") as file:
            file.write(page)
            file.seek(at)
            file.write(description)
            file.truncate()


@contextmanager
def open_target() -> Iterator[Files]:
    with tempfile.TemporaryDirectory() as folder:
        yield Files(Path(folder))
