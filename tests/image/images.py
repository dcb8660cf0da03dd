"""Images in files, in a folder of a test's own, and programs that are started out of them."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pasture_image.build.frozen import FACTS, LAYOUT
from pasture_image.build.image_file import _HEADER, _Header
from pasture_image.build.manifest import HEAD_FIELDS, checksum

TIMEOUT_S = 500
WAIT_S = 300.0
CANNOT_MOUNT = 99
BIN = Path(sys.executable).parent
STUB = BIN / "pasture-python"
SAID = {"PASTURE_IMAGE_VERBOSE": "1"}
"""The stub says then how it starts a program."""
STUB_SAYS = b"pasture-python: "


OS_PAGE = 4096
TABLES = {"sources": 6, "regions": 5, "files": 4, "folders": 1, "names": 2}
NAMES = (
    *("magic", "bytes", "checksum", *FACTS, *LAYOUT),
    *("stack_end", "stack_limit_bytes", "stack_length", "stack_source", "stack_offset", "kernels"),
    *(f"kernel{n}{part}" for n in range(6) for part in ("", "_length")),
    *("sources", "sources_at", "regions", "regions_at", "files", "files_at"),
    *("auxv_bytes", "auxv_at", "rules_at", "python_at", "options_at"),
    *("folders", "folders_at", "names", "names_at"),
    *(f"{name}{end}" for name in ("facts", "dated", "searched", "questions")
      for end in ("", "_at")),
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    out: bytes
    err: bytes


class Images:
    """Images, modules that they load, and programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lib = folder / "lib"
        self.lib.mkdir(exist_ok=True)
        self.image = folder / "app.img"
        self.environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self.lib),
        }

    def module(self, name: str, text: str) -> Path:
        """A module that images and programs find."""
        path = self.lib / f"{name}.py"
        path.write_text(text)
        return path

    def pasture(
        self, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pasture", "image", *words],
            env={**self.environ, **(environ or {})},
            text=True,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def build(
        self, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.pasture("build", "-o", str(self.image), *words, environ=environ)

    def built(self, *words: str, environ: Mapping[str, str] | None = None) -> None:
        done = self.build(*words, environ=environ)
        assert done.returncode == 0, done.stderr

    def built_rehearsed(self, program: Path, *words: str) -> None:
        """Of what a run of a program imports, and with the program as the rehearsal."""
        recipe = f"{self.folder}/rehearsed.recipe"
        watched = (str(BIN / "python"), str(program))
        done = self.pasture("recipe", "-o", recipe, "--", *watched)
        assert done.returncode == 0, done.stderr
        self.built("--rehearse", str(program), *words, recipe)
        assert self.why() == ""

    def document(self) -> dict[str, Any]:
        """What `show` says of the image."""
        path = self.folder / "shown.json"
        self.pasture("show", str(self.image), "--json", str(path))
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    @property
    def variables(self) -> dict[str, str]:
        """Of a program that starts out of the image."""
        return {"PASTURE_IMAGE": str(self.image), **self.environ}

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("env", self.variables)
        return subprocess.Popen([STUB, *words], **options)

    def run(self, *words: str, program: Path = STUB, **options: Any) -> Ended:
        done = subprocess.run(
            [program, *words],
            env={**self.variables, **options.pop("environ", {})},
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            **options,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def python(self, *words: str, **options: Any) -> Ended:
        """The same by the interpreter itself."""
        return self.run(*words, program=BIN / "python", **options)

    def in_mounts(self, script: str, *words: object, **options: Any) -> Ended:
        """A shell's script in a mount namespace of its own; the words are its arguments."""
        command = ("--mount", "sh", "-c", script, "sh", *map(str, words))
        ended = self.run(*command, program=Path("/usr/bin/unshare"), **options)
        if b"unshare" in ended.err or ended.status == CANNOT_MOUNT:
            pytest.skip("needs the right to make namespaces")
        return ended

    def why(self, *words: str, environ: Mapping[str, str] | None = None, **options: Any) -> str:
        """What the stub says of how it starts a program; "" once it does out of the image."""
        ended = self.run(*(words or ("-c", "pass")), environ={**(environ or {}), **SAID}, **options)
        return reason(ended)

    def served(
        self, *words: str, environ: Mapping[str, str] | None = None, **options: Any
    ) -> Ended:
        """A program that has started out of the image, without what the stub says of that."""
        ended = self.run(*words, environ={**(environ or {}), **SAID}, **options)
        assert reason(ended) == "", ended
        lines = ended.err.splitlines(keepends=True)
        err = b"".join(line for line in lines if not line.startswith(STUB_SAYS))
        return Ended(ended.status, ended.out, err)


def reason(ended: Ended) -> str:
    """What the stub has said of why the image does not fit; "" if it does."""
    said = [line for line in ended.err.splitlines() if line.startswith(STUB_SAYS)]
    assert said, ended
    return "" if b": started from the image: " in said[-1] else said[-1].decode()


class Description:
    """The numbers of an image's manifest by their names or offsets, for a change of them."""

    def __init__(self, path: Path) -> None:
        assert len(NAMES) == HEAD_FIELDS
        self.path = path
        self.data = bytearray(path.read_bytes())
        self.header = _Header(*_HEADER.unpack_from(self.data))
        at = self.header.manifest_at
        self.body = self.data[at : at + self.header.manifest_bytes]

    def __getitem__(self, where: str | int) -> int:
        at = where if isinstance(where, int) else 8 * NAMES.index(where)
        return int(struct.unpack_from("<Q", self.body, at)[0])

    def __setitem__(self, where: str | int, value: int) -> None:
        at = where if isinstance(where, int) else 8 * NAMES.index(where)
        struct.pack_into("<Q", self.body, at, value)

    def rows(self, table: str) -> list[int]:
        """Offsets of its rows."""
        width = 8 * TABLES[table]
        return [self[f"{table}_at"] + width * number for number in range(self[table])]

    def writable(self) -> int:
        """The row of a region that can be written to."""
        return next(at for at in self.rows("regions") if self.body[at + 28] == 3)

    def of_library(self) -> int:
        """The row of a region that is a part of the first library."""
        at = self.rows("sources").index(self.source(1))
        return next(row for row in self.rows("regions") if self.body[row + 24] == at)

    def source(self, kind: int) -> int:
        """The first row of that kind: 0 the image, 1 a library."""
        return next(at for at in self.rows("sources") if self[at] == kind)

    def lengthen(self, more: bytes) -> None:
        self.body += more
        self["bytes"] += len(more)
        self.header = self.header._replace(manifest_bytes=len(self.body))

    def write(self) -> None:
        """With all checksums made right."""
        at = self.header.manifest_at
        if self.body and len(self.body) % 8 == 0:
            self["checksum"] = checksum(self.body)
        self.data[at : at + len(self.body)] = self.body
        _HEADER.pack_into(self.data, 0, *self.header._replace(checksum=0))
        struct.pack_into("<Q", self.data, 16, checksum(self.data[:OS_PAGE]))
        self.path.write_bytes(self.data)


def make_environment(folder: Path, *more: Path) -> None:
    """A virtual environment with a stub, this one's packages, and what lies in other folders."""
    venv.create(folder, symlinks=True)
    ours = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "all.pth").write_text("".join(lines) + "".join(f"{path}\n" for path in more))
    shutil.copy(STUB, folder / "bin" / "pasture-python")


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def read_until(number: int, text: bytes | None = None) -> bytes:
    """What comes out of a terminal or pipe, up to a text, or until the other side is closed."""
    out = b""
    while text is None or text not in out:
        try:
            part = os.read(number, 4096)
        except OSError:
            break
        out += part
        if not part:
            break
    return out


def compile_library(path: Path, source: str, *options: str) -> None:
    """A library in C."""
    command = ["cc", "-shared", "-fPIC", *options, "-o", path, "-x", "c", "-"]
    subprocess.run(command, input=source.encode(), check=True)


def compiled(path: Path, value: int) -> None:
    """A library in C; all have the same size."""
    compile_library(path, f"int answer(void) {{ return {value}; }}\n")
