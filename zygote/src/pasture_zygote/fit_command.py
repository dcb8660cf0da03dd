"""`pasture image fit`: which images serve the programs of a log best.

Owns arguments, the table, and the orders that have the server make the tree.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pasture.errors import UsageError, ZygoteFailed

if TYPE_CHECKING:
    from pasture_zygote.fit_log import Log
    from pasture_zygote.fit_plan import Fit

_BUILD_TIMEOUT_S = 600.0
_MAX_SHOWN = 60


@click.command("fit")
@click.argument("logs", type=click.Path(path_type=Path), metavar="LOG...", nargs=-1, required=True)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    metavar="MB",
    help="For all images.",
)
@click.option(
    "--supersets", is_flag=True, help="Images may hold modules that a program does not import."
)
@click.option(
    "--options", default="", metavar="OPTIONS", help="Of Python: programs that have these count."
)
@click.option("--apply", "is_applied", is_flag=True, help="Have the zygote server make the images.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write as JSON."
)
def command(
    logs: tuple[Path, ...],
    budget: int,
    supersets: bool,
    options: str,
    is_applied: bool,
    json_file: Path | None,
) -> None:
    """Say which images serve the programs of a log best.

    Programs that `pasture-python` starts with PASTURE_IMPORTS=LOG are recorded. Their modules are
    imported here to measure them, as far as they are installed.
    """
    from pasture.display.atomic import require_writable, write_json
    from pasture_zygote import fit_costs, fit_log, fit_plan, starter
    from pasture_zygote.command import python, split_options
    from pasture_zygote.manifest import always_read, is_uncounted

    if json_file is not None:
        require_writable(json_file)
    words = split_options(options)
    environ = {name: value for name, value in starter.own().items() if not is_uncounted(name)}
    version = ".".join(platform.python_version_tuple()[:2])
    log = fit_log.read(logs, version, " ".join(words))
    if not log.kinds:
        raise UsageError(
            f"the log has no program of Python {version} with these options",
            hint=f"{log.malformed} lines make no sense, {log.others} are of others; "
            "PASTURE_IMPORTS=FILE records programs that pasture-python starts",
        )
    programs, missing = fit_plan.measured(
        log.kinds, lambda names: fit_costs.measure(names, python(), words, environ)
    )
    seed = repr((python(), words, sorted(always_read(environ).items())))
    found = fit_plan.plan(
        programs, budget * 1_000_000, has_supersets=supersets, missing=missing, seed=seed
    )
    if json_file is not None:
        write_json(json_file, dataclasses.asdict(found))
    _print(found, log)
    if is_applied:
        if not found.images:
            raise UsageError("no image is worth its memory: nothing is made", hint="--budget MB")
        texts = [kind.text for kind in log.kinds]
        with _alone():
            status = apply(found, texts, python(), words, environ)
        _print_made(status, found)


@contextmanager
def _alone() -> Iterator[None]:
    """One tree at a time: another one would stop what this one makes."""
    from pasture_zygote.place import make_folder

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(make_folder() / "fit.lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def apply(
    found: Fit,
    texts: Sequence[str],
    python: str,
    options: Sequence[str],
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Have the server make a tree, then send programs to it, then stop images of earlier trees.

    Wherever this is interrupted, programs start out of the earlier images, or out of these.

    Returns:
        The server's status, with `failed`: why images could not be made, by name.
    """
    from pasture_zygote.client import ask, start_server

    start_server()
    there = {zygote["name"]: zygote for zygote in ask({"do": "status"})["zygotes"]}
    made, failed = {"": ""}, {}
    for image in found.images:
        base = made[image.base]
        old = there.get(image.name)
        if old is not None and old["state"] == "failed":
            ask({"do": "stop", "name": image.name})
            old = None
        made[image.name] = image.name
        if old is None:
            fields: dict[str, Any] = {
                "name": image.name,
                "base": base,
                "preload": image.preload,
                "python": python,
            }
            fields |= {"options": list(options), "environ": dict(environ)}
            try:
                ask({"do": "start", **fields}, timeout_s=_BUILD_TIMEOUT_S)
            except ZygoteFailed as error:
                failed[image.name] = error.message
                made[image.name] = base
    routes = dict.fromkeys(texts, "")
    routes |= {kind.text: made[image.name] for image in found.images for kind in image.serves}
    ask({"do": "route", "python": python, "options": list(options), "routes": routes})
    for name in _stale(there, made.values(), python, options):
        with suppress(ZygoteFailed):  # its base was stopped, and it with that
            ask({"do": "stop", "name": name})
    for name in failed:
        with suppress(ZygoteFailed):
            ask({"do": "stop", "name": name})
    return {**ask({"do": "status"}), "failed": failed}


def _stale(there: Mapping[str, Any], made: Any, python: str, options: Sequence[str]) -> list[str]:
    """Images of earlier trees that no image of this one stands on."""
    from pasture_zygote.fit_plan import PREFIX

    kept = set(made)
    return [
        name
        for name, zygote in there.items()
        if name.startswith(PREFIX) and name not in kept
        if zygote["python"] == python and zygote["options"] == list(options)
    ]


def _print(found: Fit, log: Log) -> None:
    from rich.table import Table

    from pasture.display.terminal import output_terminal
    from pasture.trust.untrusted_text import printable

    table = Table(box=None, pad_edge=False)
    for title in ("image", "base", "own memory", "programs", "preloads"):
        table.add_column(title, justify="right" if title in ("own memory", "programs") else "left")
    for one in found.images:
        served = sum(kind.count for kind in one.serves)
        preloads = ",".join(one.preload)
        if len(preloads) > _MAX_SHOWN:
            preloads = f"{preloads[:_MAX_SHOWN]}... ({len(one.preload)})"
        words = (one.name, one.base or "bare", f"{one.bytes / 1e6:.1f} MB", f"{served:,}", preloads)
        table.add_row(*(printable(word) for word in words))
    if found.images:
        output_terminal().print(table)
    _say(
        f"{found.programs:,} programs of {len(log.kinds)} kinds import for"
        f" {found.seconds * 1e3:.0f} ms each, out of these images for"
        f" {found.left_seconds * 1e3:.0f} ms;"
        f" {len(found.images)} images, {found.bytes / 1e6:.0f} MB"
    )
    notes = (
        (log.rare, "programs of rarer kinds are left out"),
        (log.others, "programs of another Python or with other options are left out"),
        (log.malformed, "lines make no sense"),
        (max(0, log.packages - 1), "changes of the installed packages meanwhile"),
    )
    for count, what in notes:
        if count:
            _say(f"{count:,} {what}")
    for name, why in found.missing.items():
        _say(f"{name} is in no image: {why}")


def _print_made(status: Mapping[str, Any], found: Fit) -> None:
    names = {image.name for image in found.images}
    made = [zygote for zygote in status["zygotes"] if zygote["name"] in names]
    size = sum(zygote["bytes"] for zygote in made)
    _say(f"made: {len(made)} images, {size / 1e6:.0f} MB")
    for name, why in status["failed"].items():
        _say(f"{name} could not be made: {why}")


def _say(text: str) -> None:
    from pasture.display.terminal import output_terminal
    from pasture.trust.untrusted_text import printable

    output_terminal().print(printable(text), markup=False, soft_wrap=True)
