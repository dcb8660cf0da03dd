"""Images in files, in a folder of a test's own, and programs that are started out of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 500
CANNOT_MOUNT = 99
BIN = Path(sys.executable).parent
STUB = BIN / "pasture-python"


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
        given = {**(environ or {}), "PASTURE_IMAGE_VERBOSE": "1"}
        ended = self.run(*(words or ("-c", "pass")), environ=given, **options)
        lines = ended.err.decode().splitlines()
        said = [line for line in lines if line.startswith("pasture-python: ")]
        assert said, ended
        return "" if ": started from the image: " in said[-1] else said[-1]


def make_environment(folder: Path, *more: Path) -> None:
    """A virtual environment with a stub, this one's packages, and what lies in other folders."""
    venv.create(folder, symlinks=True)
    ours = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "all.pth").write_text("".join(lines) + "".join(f"{path}\n" for path in more))
    shutil.copy(STUB, folder / "bin" / "pasture-python")


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
