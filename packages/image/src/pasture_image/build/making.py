"""Makes an image: has a builder load modules, writes their memory, and tries the file.

The builder is started with the variables that matter to every start, and modules
find these and the ones that were named: they see no other of the caller's environment.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from pasture.errors import ImageFailed
from pasture.interpreter import native
from pasture_image.build import image_file
from pasture_image.build.document import Document, Remark
from pasture_image.build.process import Build, end_orphans, stub_of
from pasture_image.inside.memory import read
from pasture_image.inside.order import Built, Order
from pasture_image.inside.start_variables import NAMES, OF_PLACE, always_read, is_uncounted
from pasture_tools.proc import processor

_TRY_TIMEOUT_S = 60.0
_MAX_BUILDS = 3
STARTED = "started from the image"
_MATTERS = "a variable that matters at the start: "
"""As `pasture-python` says it."""
_ANY_OPTIONS = "_PASTURE_ANY_OPTIONS"
"""As src/stub/main.c reads them."""


def variables(
    environ: Mapping[str, str], given: Iterable[str], prefixes: Iterable[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment that an image is made in, and names of those in it that were named.

    Args:
        environ: of the caller: what matters to every start is taken from there, and what says where
            and how a program runs (`OF_PLACE`). Of the latter counts what modules look at.
        given: `NAME`, to be taken from there, too, or `NAME=VALUE`.
        prefixes: all that begin so are taken, too.
    """
    found = {name: value for name, value in always_read(environ).items() if value is not None}
    found |= {name: environ[name] for name in OF_PLACE & environ.keys() if not is_uncounted(name)}
    named = {n: value for n, value in environ.items() if n.startswith(tuple(prefixes))}
    for name, has_value, value in (one.partition("=") for one in given):
        if has_value or name in environ:
            named[name] = value if has_value else environ[name]
    return found | named, tuple(sorted(named))


def build(path: Path, order: Order) -> Document:
    """Make an image; returns its document.

    Raises:
        ImageFailed: it cannot be made, or no program starts out of it.
    """
    stub = stub_of(order.python)
    _require_absolute_path(order)
    built, manifest, pages = _settled(order)
    try:
        document = _document(order, built)

        def inspect(written: BinaryIO) -> None:
            name = f"/proc/{os.getpid()}/fd/{written.fileno()}"
            if (why := why_not(stub, Path(name), order.environ, order.options)) is not None:
                raise ImageFailed(
                    f"no program starts out of the image: {why}", hint="nothing was written"
                )

        image_file.write(path, pages, read(manifest), document, order.mode, inspect)
    finally:
        os.close(manifest)
        os.close(pages)
    return document


def _require_absolute_path(order: Order) -> None:
    """Raise ImageFailed if where modules are looked for depends on the working directory."""
    path = order.environ.get("PYTHONPATH", "")
    is_read = not {"-E", "-I"} & {*order.options}
    if path and is_read and not all(part.startswith("/") for part in path.split(os.pathsep)):
        raise ImageFailed(
            f"PYTHONPATH has a folder that is not named from / on: {path}",
            hint="name each so; an empty one is the working directory",
        )


def _settled(order: Order) -> tuple[Built, int, int]:
    """Build until no file changes meanwhile; one that loading itself writes changes each time."""
    changed: set[str] = set()
    for _ in range(_MAX_BUILDS):
        built, manifest, pages = _made(order)
        before, changed = changed, {*built.changed}
        if changed <= before and (not built.left or "made" in order.allow):
            return built, manifest, pages
        os.close(manifest)
        os.close(pages)
    hint = "build it again; with --allow made programs get what it was"
    raise ImageFailed(f"{min(changed)} changes while it is loaded", hint=hint)


def _made(order: Order) -> tuple[Built, int, int]:
    try:
        native().adopt_orphans()
    except OSError as error:
        raise ImageFailed(
            f"the kernel does not make this process the parent of orphans: {error.strerror}",
            hint="build the image outside the sandbox that refuses it",
        ) from None
    build = Build(order)
    try:
        built, descriptors = build.receive()
    finally:
        build.end()
        end_orphans()
    if len(descriptors) != 2:
        for number in descriptors:
            os.close(number)
        raise ImageFailed(
            built.problem or "the image could not be received",
            hint=built.hint or "see what the process said above",
        )
    return built, descriptors[0], descriptors[1]


def why_not(
    stub: Path, image: Path, environ: Mapping[str, str], options: Iterable[str] | None = None
) -> str | None:
    """Why a program that has an environment would not start out of an image; None if it does.

    Args:
        options: of Python; None for those of the image, whatever they are: no word of a file is put
            on a command line, where `python` would run it if the image does not fit.
    """
    why = _tried(stub, image, environ, options)
    if why is not None and "had this process's id" in why:  # by chance
        why = _tried(stub, image, environ, options)
    return why


def _tried(
    stub: Path, image: Path, environ: Mapping[str, str], options: Iterable[str] | None
) -> str | None:
    given = {**environ, "PASTURE_IMAGE": str(image.absolute()), "PASTURE_IMAGE_VERBOSE": "1"}
    if options is None:
        given[_ANY_OPTIONS] = "1"
    try:
        done = subprocess.run(
            [stub, *(options or ()), "-c", "pass"], env=given, cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_TRY_TIMEOUT_S, check=False, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = [line for line in done.stderr.splitlines() if line.startswith("pasture-python: ")]
    is_started = bool(said) and f": {STARTED}: " in said[-1]
    if done.returncode == 0 and is_started:
        return None
    if is_started or not said:
        return f"it ended with status {done.returncode}"
    return said[-1].split(": ", 2)[-1]  # behind the program's name and the interpreter's


def in_the_way(stub: Path, image: Path, environ: Mapping[str, str], order: Order) -> list[str]:
    """Variables for whose sake a program that has an environment would not start out of an image.

    Each is as the image has it when the next one is looked for.
    """
    left, found = dict(environ), list[str]()
    while True:
        _, matters, name = (why_not(stub, image, left) or "").partition(_MATTERS)
        if not matters or name in found:
            return found
        found.append(name)
        left.pop(name, None)
        left |= {name: order.environ[name]} if name in order.environ else {}


def _document(order: Order, built: Built) -> Document:
    return Document(
        pasture=version("pasture"),
        python=order.python,
        version=platform.python_version(),
        options=order.options,
        preload=order.preload,
        modules=tuple(sorted(built.modules)),
        libraries=built.libraries,
        files=built.files,
        variables=tuple(
            sorted(n for n, v in built.variables.items() if v is not None or n not in NAMES)
        ),
        holds=tuple(
            sorted({n for n in order.environ if n not in OF_PLACE or n in built.variables})
        ),
        notes=tuple(Remark(n.code, n.subject, n.sentence) for n in built.notes),
        kernel=f"{platform.release()} {platform.version()}",
        processor=processor.model() or platform.machine(),
    )
