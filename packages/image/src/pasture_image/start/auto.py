"""Makes the image of a program in the background of its first start: `PASTURE_IMAGE=auto`.

`pasture-python` starts this program, with the lowest priority, a lock and the names that the first
start notes (`seen`), and then executes the interpreter. Owns what goes into such an image, and how
many are kept: only modules that the program has imported, that lie in the folders of the
interpreter or of installed packages, and that can be imported by themselves. The program and its
own modules never run here. A failure is written down next to the image, and not repeated at each
start.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pasture.errors import ImageFailed, PastureError
from pasture.trust import locks, private_files
from pasture_image.start import missed

MAX_IMAGES = 8
MAX_BYTES = 2_000_000_000
FOLDERS = tuple(
    os.path.join(sysconfig.get_path(name), "")  # noqa: PTH118
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

_QUIET_S = 3.0
_MAX_WAIT_S = 60.0
_POLL_S = 0.25
_MAX_TRY_S = 300.0
_OLD_S = 30 * 24 * 3600
_ENDS = ("failed", "lock", "missed")
_NAMES = 4
"""Descriptor, as src/stub/auto.c passes it."""


class Program(NamedTuple):
    """A program, as `pasture-python` found it on its command line."""

    pid: int
    kind: str
    text: str
    options: tuple[str, ...]


def main(place: str, pid: str, kind: str, text: str, *options: str) -> None:
    """Wait until the program has loaded its modules, and make the image."""
    path, program = Path(place), Program(int(pid), kind, text, options)
    failed = path.with_name(f"{path.name}.failed")
    try:
        _make(path, program, _wait(program.pid))
        missed.forget(path)
        failed.unlink(missing_ok=True)
    except PastureError as error:
        private_files.write(failed, f"{error.message}\n")
    except BaseException as error:
        private_files.write(failed, f"{type(error).__name__}: {error}\n")
        raise
    finally:
        prune(path.parent)


def _wait(pid: int) -> list[str]:
    """Names of modules that the program imports, until it imports no more for a while, or ends."""
    began = last = time.monotonic()
    names: list[str] = []
    while time.monotonic() - began < _MAX_WAIT_S:
        now = _seen()
        if len(now) > len(names):
            names, last = now, time.monotonic()
        if not Path(f"/proc/{pid}").exists() or time.monotonic() - last > _QUIET_S:
            break
        time.sleep(_POLL_S)
    return _seen()


def _seen() -> list[str]:
    return read_names(os.pread(_NAMES, os.fstat(_NAMES).st_size, 0))


def read_names(area: bytes) -> list[str]:
    """Names in what `seen` has written, each once, in their order."""
    whole = area.rstrip(b"\0").decode("utf-8", "replace")
    lines = whole[: whole.rfind("\n") + 1].splitlines()
    names = (name for name in lines if all(part.isidentifier() for part in name.split(".")))
    return list(dict.fromkeys(names))


def _make(path: Path, program: Program, names: Sequence[str]) -> None:
    from pasture_image.build import leaks
    from pasture_image.build.interpreter import python
    from pasture_image.build.making import build, variables
    from pasture_image.inside import environment
    from pasture_image.inside.order import Order

    own = environment.own()
    environ = variables(own, ())
    secrets, _ = leaks.of_variables(own, environ)
    _wait_for_others(path.parent)
    loadable = _loadable(program, names, environ)
    problem = ImageFailed("the program has imported nothing that can be kept")
    for modules in dict.fromkeys((loadable, tuple(filter(is_of_interpreter, loadable)))):
        if modules:
            order = Order(python(), modules, program.options, environ, secrets=tuple(secrets))
            try:
                read = [one for one in build(path, order).notes if one.code == "arguments"]
            except ImageFailed as error:
                problem = error
                continue
            if not read:
                return
            path.unlink()  # it would serve no program that has a name
            problem = ImageFailed(read[0].text)
    raise problem


def _wait_for_others(folder: Path) -> None:
    """One build at a time: many first programs at once do not take the memory of many builds."""
    # Until this process ends.
    locks.lock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _loadable(program: Program, names: Sequence[str], environ: dict[str, str]) -> tuple[str, ...]:
    """Those that can be imported by themselves: tried in a process that is thrown away."""
    own = program.text if program.kind == "m" else ""
    wanted = [name for name in names if not name.endswith("__main__") and name != own]
    source = "import pasture_image.start.auto as auto; auto.try_all()"
    command = [sys.executable, *program.options, "-c", source]
    try:
        done = subprocess.run(
            command, input="\n".join(wanted), env=environ, cwd="/", capture_output=True, text=True,
            timeout=_MAX_TRY_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise ImageFailed(f"modules cannot be tried: {error}") from None
    last = done.stdout.splitlines()[-1:]
    return tuple(json.loads(last[0])) if last else ()


def try_all() -> None:
    """Import each of the modules that standard input names; print those that could be."""
    names = sys.stdin.read().split()
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    found = []
    for name in names:
        with contextlib.suppress(Exception, SystemExit):
            if is_installed(name):
                importlib.import_module(name)
                found.append(name)
    print()
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of what was tried


def is_installed(name: str) -> bool:
    """Whether a module is the interpreter's or an installed package's, and not one of a project."""
    top = name.partition(".")[0]
    if is_of_interpreter(top):
        return True
    spec = importlib.util.find_spec(top)
    return spec is not None and spec.origin is not None and spec.origin.startswith(FOLDERS)


def is_of_interpreter(name: str) -> bool:
    """Whether a module is of the standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


def folder() -> Path:
    """Where the images are; src/stub/auto.c looks there, too."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if cache.startswith("/") else Path(os.environ.get("HOME", "/"), ".cache")
    return home / "pasture" / "images"


def failures(folder: Path) -> list[tuple[Path, str]]:
    """Images that could not be made, and why."""
    found = []
    for path in sorted(folder.glob("*.img.failed")):
        with contextlib.suppress(OSError):
            found.append((path.with_suffix(""), path.read_text(errors="replace").strip()))
    return found


def images(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Those of a folder, the one that was used last first."""
    found = []
    for path in folder.glob("*.img"):
        with contextlib.suppress(OSError):
            found.append((path, path.stat()))
    return sorted(found, key=lambda one: -one[1].st_mtime)


def prune(folder: Path) -> None:
    """Remove images that were not used for longest, beyond the limits, and leavings of others."""
    size = 0
    for number, (path, status) in enumerate(images(folder)):
        size += status.st_blocks * 512
        if number and (number >= MAX_IMAGES or size > MAX_BYTES):
            path.unlink(missing_ok=True)
    for path in (*_left(folder), *_unfinished(folder)):
        with contextlib.suppress(OSError):
            path.unlink()


def _left(folder: Path) -> Iterable[Path]:
    before = time.time() - _OLD_S
    for end in _ENDS:
        for path in folder.glob(f"*.img.{end}"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before and not path.with_suffix("").exists():
                    yield path


def _unfinished(folder: Path) -> Iterable[Path]:
    """What processes that are gone were writing (`private_files.replacing`)."""
    for path in folder.glob(".*.part"):
        pid = path.name.rpartition("-")[0].rpartition(".")[2]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            yield path


if __name__ == "__main__":
    main(*sys.argv[1:])
