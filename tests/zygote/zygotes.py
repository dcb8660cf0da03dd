"""A server of zygotes in a folder of its own, and programs that are started with and without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
BIN = Path(sys.executable).parent
STUB = BIN / "pasture-python"


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    out: bytes
    err: bytes


class Zygotes:
    """The zygotes of a test, and programs that are started with and without them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}

    def pasture(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pasture", "zygote", *words],
            env=self.environ,
            text=True,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=check,
        )

    def status(self) -> dict[str, Any]:
        return {zygote["name"]: zygote for zygote in self._status()["zygotes"]}

    def served(self) -> int:
        """Requests that were not left to the interpreter, so far."""
        return sum(zygote["served"] for zygote in self._status()["zygotes"])

    def pid(self) -> int:
        """Of the server."""
        return int(self._status()["pid"])

    def _status(self) -> dict[str, Any]:
        path = self.folder / "status.json"
        self.pasture("status", "--json", str(path))
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def run(self, *words: str, program: Path = STUB, **options: Any) -> Ended:
        options.setdefault("env", self.environ)
        done = subprocess.run(
            [program, *words], capture_output=True, timeout=TIMEOUT_S, check=False, **options
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def python(self, *words: str, **options: Any) -> Ended:
        """The same by the interpreter itself."""
        return self.run(*words, program=BIN / "python", **options)

    def why(self, *words: str, environ: Mapping[str, str] | None = None, **options: Any) -> str:
        """What the stub says of how it serves a request."""
        variables = {**self.environ, **(environ or {}), "PASTURE_ZYGOTE_VERBOSE": "1"}
        ended = self.run(*words, env=variables, **options)
        lines = ended.err.decode().splitlines()
        return next((line for line in reversed(lines) if line.startswith("pasture-python: ")), "")

    def wait_until_served(self, source: str, name: str = "") -> None:
        """Until a program is: by the zygote of that name, if one is given."""
        end = time.monotonic() + TIMEOUT_S
        while f"served by the zygote: {name}" not in self.why("-c", source):
            assert time.monotonic() < end
            time.sleep(0.1)

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("env", self.environ)
        return subprocess.Popen([STUB, *words], **options)

    def log(self) -> str:
        path = self.folder / "pasture" / "zygote.log"
        return path.read_text() if path.exists() else ""
