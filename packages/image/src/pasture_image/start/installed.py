"""The environment's own image, next to `pasture-python`, and the scripts that start out of it.

A script is switched by its first line, which anyone can read. Each switched one is recorded whole,
as it was and as it is. Invariant: the record is written before a script is switched, and forgets it
after it is back, so an interrupted step loses nothing and can be repeated. A script that is
neither as it was nor as it is was written by another hand since: it is left alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from pasture.errors import ImageFailed
from pasture.trust import locks, private_files
from pasture_image.build.regions import write_at

State = Literal["switched", "as it was", "replaced", "gone"]

_CHUNK_BYTES = 1 << 20
_MAX_SHEBANG_BYTES = 127  # of the kernel before 5.1, as pip counts
_PLAIN = re.compile(rb"#![ \t]*(?P<folder>/\S*)/python[\d.]*(?:[ \t]+(?P<option>-\S+))?[ \t]*\r?\n")
_BY_ENV = re.compile(rb"#![ \t]*/\S*/env[ \t]+python[\d.]*[ \t]*(?P<option>)\r?\n")
_BY_SHELL = re.compile(
    rb"#!/bin/sh\n'''exec' \"?(?:(?P<folder>/.*)/|\"\$\(.*\)\"/')python[\d.]*[\"']?(?P<option>) "
    rb"\"\$0\" \"\$@\"\n' '''\n"
)
"""As pip and uv write it where the path is long, has spaces, or is relative."""

_HEADS = (_PLAIN, _BY_ENV, _BY_SHELL)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was switched: all of its content, and its path."""

    path: Path
    before: bytes
    after: bytes

    @property
    def state(self) -> State:
        """How it is now."""
        try:
            now = self.path.read_bytes()
        except OSError:
            return "gone"
        return {self.before: "as it was", self.after: "switched"}.get(now, "replaced")  # type: ignore[return-value]


def image_of(stub: Path) -> Path:
    """Where the environment's own image is; src/stub/main.c looks there, too."""
    return Path(f"{stub}.img")


@contextmanager
def locked(stub: Path) -> Iterator[None]:
    """One install or uninstall of an environment at a time.

    Raises:
        ImageFailed: its folder cannot be written to.
    """
    try:
        with locks.locked(stub.parent.resolve()):
            yield
    except OSError as error:
        raise ImageFailed(
            f"{error.filename or stub.parent} cannot be changed: {error.strerror or error}",
            hint="an environment's own image is installed by the user who owns the environment",
        ) from None


def install_image(stub: Path, image: BinaryIO) -> None:
    """Make an open image the environment's own: the same file under another name where that can be.

    Its path is not used again: a copy would belong to this user, and its content to another one.
    """
    own = image_of(stub)
    status = os.fstat(image.fileno())
    if own.exists() and os.path.samestat(own.stat(), status):
        return
    part = f".{own.name}.{os.getpid()}.part"
    folder = os.open(own.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{image.fileno()}", part, dst_dir_fd=folder, follow_symlinks=True)
        os.replace(part, own.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _copy(image, own, status.st_mode & 0o755)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        os.close(folder)


def _copy(image: BinaryIO, own: Path, mode: int) -> None:
    image.seek(0)
    with private_files.replacing(own) as file:
        offset = 0
        while data := image.read(_CHUNK_BYTES):
            write_at(file.fileno(), data, offset)
            offset += len(data)
        os.fchmod(file.fileno(), mode)


def find_script(stub: Path, name: str) -> Path:
    """The file of a script: a path, or a name in the environment's folder.

    Raises:
        ImageFailed: there is none.
    """
    path = Path(name) if os.sep in name else stub.parent / name
    if not path.is_file():
        raise ImageFailed(
            f"there is no script {path}", hint="give a name in the environment's bin, or a path"
        )
    return path.resolve()


def to_switch(stub: Path, paths: Sequence[Path]) -> tuple[dict[Path, Script], list[Script]]:
    """The scripts that were switched before, by path, and those of `paths` that have to be now.

    Raises:
        ImageFailed: one is no Python script, or belongs to another environment.
    """
    known = {script.path: script for script in scripts(stub)}
    wanted = []
    for path in paths:
        if path not in known or known[path].state != "switched":
            content = path.read_bytes()
            wanted.append(Script(path, content, _switched(stub, path, content)))
    return known, wanted


def switch(stub: Path, paths: Sequence[Path]) -> None:
    """Have scripts start out of the image, if they do not yet; raises as `to_switch`."""
    known, wanted = to_switch(stub, paths)
    _record(stub, {**known, **{script.path: script for script in wanted}}.values())
    for script in wanted:
        _replace(script.path, script.after)


def switch_back(stub: Path, paths: Sequence[Path]) -> list[Script]:
    """Put scripts back as they were; those that others have written since are left and returned."""
    found = scripts(stub)
    left = [script for script in found if script.path in paths and script.state == "replaced"]
    for script in found:
        if script.path in paths and script.state == "switched":
            _replace(script.path, script.before)
    _record(stub, [script for script in found if script.path not in paths])
    return left


def remove(stub: Path) -> list[Script]:
    """Put all scripts back, and remove the image; returns as `switch_back`."""
    left = switch_back(stub, [script.path for script in scripts(stub)])
    image_of(stub).unlink(missing_ok=True)
    return left


def scripts(stub: Path) -> list[Script]:
    """Those that were switched.

    Raises:
        ImageFailed: the record cannot be read.
    """
    try:
        document = json.loads(_record_of(stub).read_bytes())
        return [
            Script(Path(path), before.encode("latin-1"), after.encode("latin-1"))
            for path, (before, after) in document.items()
        ]
    except FileNotFoundError:
        return []
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ImageFailed(
            f"{_record_of(stub)} cannot be read: {error}",
            hint="install the packages of the scripts again, then remove that file",
        ) from None


def _record_of(stub: Path) -> Path:
    return Path(f"{stub}.scripts")


def _record(stub: Path, found: Iterable[Script]) -> None:
    document = {str(s.path): (s.before.decode("latin-1"), s.after.decode("latin-1")) for s in found}
    if document:
        private_files.write(_record_of(stub), json.dumps(document, indent=1))
    else:
        _record_of(stub).unlink(missing_ok=True)


def _switched(stub: Path, path: Path, content: bytes) -> bytes:
    """The same script with `pasture-python` for its interpreter."""
    head = next(filter(None, (form.match(content) for form in _HEADS)), None)
    if head is None:
        raise ImageFailed(
            f"{path} does not begin as a script of Python's",
            hint="name pasture-python where the program is started",
        )
    folder = head.groupdict().get("folder")
    if folder is not None and Path(os.fsdecode(folder)).resolve() != stub.parent.resolve():
        raise ImageFailed(
            f"{path} is for the interpreter in {os.fsdecode(folder)}",
            hint=f"use the pasture of that environment, not the one in {stub.parent}",
        )
    target, option = os.fsencode(stub), head["option"] or b""
    line = (b"#!%s %s" % (target, option)).rstrip() + b"\n"
    if len(line) > _MAX_SHEBANG_BYTES or re.search(rb"\s", target):
        line = b"#!/bin/sh\n'''exec' \"%s\" %s \"$0\" \"$@\"\n' '''\n" % (target, option)
    return line + content[head.end() :]


def _replace(path: Path, content: bytes) -> None:
    """The same file with other content: mode and owner stay."""
    status = path.stat()
    with private_files.replacing(path) as file:
        write_at(file.fileno(), content, 0)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o7777)
