"""Documents of images at `pasture image show` and `check`: files that another user has written.

Header and checksums are right, since who writes a file can compute them; the document is the
message. Whatever it says, each command comes to one sentence or to its table, and no word of it is
put on a command line: a program stands in for `pasture-python` and records what it was given.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

from click.testing import CliRunner

from pasture.errors import PastureError
from pasture_image import command
from pasture_image.build import image_file
from pasture_image.build.making import STARTED
from pasture_image.build.manifest import checksum

PAGE_BYTES = 4096
ALLOWED = ["-c pass"]

DOCUMENT = {
    **{"pasture": "1.0", "python": "/usr/bin/python3", "version": "3.14.5"},
    **{"options": ["-u", "-X", "dev"], "preload": ["json"], "modules": ["json", "sys"]},
    **{"libraries": ["/lib/libc.so.6"], "files": ["/usr/lib/python3/json.py"]},
    **{"variables": ["HOME", "LANG"], "holds": ["HOME"], "kernel": "6.1"},
    **{"notes": [{"code": "random", "subject": "json", "text": "json has drawn"}]},
    "processor": "a model",
}
CODE = "import os; os.abort()"
"""What an attacker would have run."""


def image_of(document: bytes) -> bytes:
    """A file with this document and right checksums."""
    tail = b"manifest" + document
    head = bytearray(PAGE_BYTES)
    parts = (PAGE_BYTES, 8, PAGE_BYTES + 8, len(document))
    fields = (image_file.MAGIC, PAGE_BYTES, 0, PAGE_BYTES + len(tail), *parts)
    struct.pack_into("<8Q32s", head, 0, *fields, hashlib.sha256(tail).digest())
    struct.pack_into("<Q", head, 16, checksum(head))
    return bytes(head) + tail


class Documents:
    """The two commands, on one file that is written again for each message."""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self._image, self._given = folder / "a.img", folder / "given"
        self._stub = folder / "pasture-python"
        said = f"pasture-python: {folder}: {STARTED}: it"
        self._stub.write_text(f'#!/bin/sh\necho "$@" >> {self._given}\necho "{said}" >&2\n')
        self._stub.chmod(0o755)

    def sample(self, random: Random) -> bytes:
        options = random.choice((["-c", CODE], ["-u"], ["-m", "this"], [""]))
        return json.dumps({**DOCUMENT, "options": options}).encode()

    def take(self, data: bytes, random: Random) -> None:
        self._image.write_bytes(image_of(data))
        for words in (["show", str(self._image)], ["show", "--check", str(self._image)]):
            self._given.write_bytes(b"")
            self.outcomes[f"{words[0]}: {self._run(words)}"] += 1
            given = self._given.read_text().splitlines()
            assert given in ([], ALLOWED[: "--check" in words]), given

    def _run(self, words: list[str]) -> str:
        with mock.patch.object(command, "_stub", lambda: self._stub):
            done = CliRunner().invoke(command.command, words)
        if done.exception is None:
            return "done"
        if not isinstance(done.exception, PastureError):
            raise done.exception
        assert len(done.exception.message.splitlines()) == 1, done.exception.message
        return "refused"


@contextmanager
def open_target() -> Iterator[Documents]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)  # noqa: PTH101
        yield Documents(Path(folder))
