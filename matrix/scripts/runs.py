"""A program by `python` and out of an image, in the same folder, and what is the same.

Programs are another user's, without a network, in a folder that is made for each start. Invariant:
a program that differs from itself between two starts by `python` is not the image's difference,
and one that never does is.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from operator import and_
from pathlib import Path

from matrix.scripts.catalog import CATALOG, Case
from matrix.scripts.environments import OTHER_USER, give, home_of, variables

TIMEOUT_S = 180
PLAIN_STARTS = 5
LONG_AGO_S = 1_700_000_000
SAID = b"pasture-python: "
STARTED = b"started from the image"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        files: digests of what it left in its folder, by path.
    """

    status: int
    out: bytes
    err: bytes
    files: tuple[tuple[str, str], ...]

    @property
    def words(self) -> Counter[bytes]:
        """Without numbers, and in no order."""
        texts = (re.sub(rb"0x[0-9a-f]+|\d+", b"", one) for one in (self.out, self.err))
        names = (os.fsencode(name) for name, _ in self.files)
        return Counter([b"%d" % self.status, *names, *re.findall(rb"\w+", b" ".join(texts))])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        verdict: "same", "varies" (by itself), "differs", "others" (it does not out of an image of
            its module alone), "not served", or "no end".
        why: it was not served, or the first difference.
    """

    verdict: str
    why: str = ""


def start(case: Case, bin: Path, interpreter: str, image: Path, scratch: Path) -> Ended | None:
    """Run a program once; None if it does not end in time."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(home_of(image), scratch, symlinks=True)
    environ = variables(bin, scratch)
    folder = scratch / "folder"
    folder.mkdir()
    for name, text in CATALOG["given"].items():
        (folder / name).write_text(text, encoding="utf-8")
        os.utime(folder / name, (LONG_AGO_S, LONG_AGO_S))  # archives have it
    give(scratch)
    environ |= {"PASTURE_IMAGE": str(image), "PASTURE_IMAGE_VERBOSE": "1"}
    with subprocess.Popen(
        [*OTHER_USER, bin / interpreter, *case.program, *case.words],
        env=environ, cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return Ended(process.returncode, out, err, tuple(_files(scratch)))


def _files(scratch: Path) -> list[tuple[str, str]]:
    return sorted(
        (str(path.relative_to(scratch)), hashlib.sha256(_content(path)).hexdigest()[:12])
        for path in scratch.rglob("*")
        if path.is_file()
    )


def _content(path: Path) -> bytes:
    """Of a compiled module its code: how it is packed depends on the number of references."""
    data = path.read_bytes()
    return data[:16] + repr(marshal.loads(data[16:])).encode() if path.suffix == ".pyc" else data


def compare(case: Case, bin: Path, image: Path, scratch: Path) -> Outcome:
    """Run a case both ways."""
    served = start(case, bin, "pasture-python", image, scratch)
    if served is None:
        found = start(case, bin, "python", image, scratch)
        return Outcome("no end") if found is None else Outcome("differs", "it does not end")
    why, served = _said(served)
    if STARTED.decode() not in why:
        return Outcome("not served", why)
    plain: list[Ended] = []
    for _ in range(PLAIN_STARTS):
        one = start(case, bin, "python", image, scratch)
        if one is None:
            return Outcome("differs", "python does not end")
        if one == served:
            return Outcome("varies" if plain else "same")
        plain.append(one)
    words = [one.words for one in plain]
    always = reduce(and_, words)
    if any(one != plain[0] for one in plain) and (
        always <= served.words and served.words.total() in [one.total() for one in words]
    ):
        return Outcome("varies")
    return Outcome("differs", _first(plain[0], served))


def _said(ended: Ended) -> tuple[str, Ended]:
    """What the stub said of the start, and the end without it."""
    lines = ended.err.splitlines(keepends=True)
    said = b" ".join(line for line in lines if line.startswith(SAID)).decode(errors="replace")
    rest = b"".join(line for line in lines if not line.startswith(SAID))
    return said.strip(), Ended(ended.status, ended.out, rest, ended.files)


def _first(plain: Ended, served: Ended) -> str:
    """The first difference, in words."""
    if plain.status != served.status:
        return f"status {served.status} for {plain.status}: {_text(served.err[-300:])}"
    for name in ("out", "err"):
        had, has = (getattr(one, name).splitlines() for one in (plain, served))
        for before, after in zip_longest(had, has, fillvalue=b""):
            if before != after:
                return f"{name}: {_text(after[:200])!r} for {_text(before[:200])!r}"
    return f"files: {sorted(set(served.files) ^ set(plain.files))[:4]}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
