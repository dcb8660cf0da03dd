"""Translated programs: built in the root (pypy/root), kept in the cache by what they are made of.

A build is named by a hash of this folder's sources and of its options, so that an old one is
never measured for a new one. Builds take turns: a translation needs a core for half a minute.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
ROOT = FOLDER / "root"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pasture" / "pypy"
SOURCES = {
    "stock": (),
    "published": ("published", "collector/tracing.py"),
    "ours": ("collector",),
}
COLLECTORS = tuple(SOURCES)
PARTS = {"measured": ("heap", "allocation", "requests"), "checked": ("stress", "failures")}
"""Programs that a program consists of, beside its own file."""


class BuildFailed(Exception):
    """Says what failed, with the last lines of its log."""


def sources_hash(collector: str, program: str) -> str:
    """Of all that a build of this program is made of."""
    digest = hashlib.sha256(os.environ.get("PASTURE_RPYTHON", "").encode())
    programs = [f"programs/{name}.py" for name in (program, *PARTS.get(program, ()))]
    for name in (*SOURCES[collector], "requirements.txt", *programs):
        path = FOLDER / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in {".py", ".c", ".h", ".txt"}:
                digest.update(f"{file.relative_to(FOLDER)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def root_path() -> Path:
    """Raises BuildFailed, with the hint of pypy/root, where there is no root."""
    done = subprocess.run([ROOT, "path"], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildFailed(done.stderr.strip())
    return Path(done.stdout.strip())


def build(collector: str, program: str, *, check: bool = False) -> Path:
    """The program on that collector, translated now if it is not there.

    Args:
        collector: one of COLLECTORS.
        program: the name of a file in programs/.
        check: with the heap verifier, and failures to order (ours alone).

    Raises:
        BuildFailed: there is no root, or the translation failed.
    """
    kind = f"{collector}-check" if check else collector
    built = CACHE / "builds" / sources_hash(collector, program) / f"{program}-{kind}"
    if built.exists():
        return built
    root = root_path()
    built.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / "builds" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _translate(root, collector, program, check, built)
    return built


def _translate(root: Path, collector: str, program: str, check: bool, built: Path) -> None:
    print(f"translating {built.name}", file=sys.stderr, flush=True)
    inside = f"/tmp/{built.name}.{os.getpid()}"
    log = built.with_suffix(".log")
    with log.open("w") as output:
        command = (str(ROOT), "run", "pypy", "translate.py", collector, inside)
        done = subprocess.run(
            (*command, f"programs/{program}.py"),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PASTURE_CHECK": "1" if check else "0"},
        )
    product = root / inside.lstrip("/")
    if done.returncode != 0 or not product.exists():
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildFailed(f"translating {built.name} failed ({log}):\n{last}")
    shutil.move(product, built)
