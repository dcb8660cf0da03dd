"""A fitted tree of images beside an image for each kind of programs: time and memory.

Forty kinds of programs, of one to three packages each, the n-th kind a thousand times as often as
1/n says. Each kind is recorded by a run under `python`; its line then stands in the log as often as
the kind runs. Two servers of zygotes: one has an image for each kind, the other one what `pasture
image fit` makes of the log. Each program runs out of both, one right after the other.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

BIN = Path(sys.executable).parent
PACKAGES = BIN.parent / "fit" / "site-packages"
KINDS = (
    "requests", "numpy", "pandas", "json,csv,sqlite3", "numpy,requests", "sqlalchemy", "pydantic",
    "jinja2", "numpy,matplotlib.pyplot", "pandas,requests", "yaml,jinja2", "httpx", "PIL.Image",
    "numpy,PIL.Image", "bs4,requests", "lxml.etree", "boto3", "pandas,sqlalchemy",
    "pandas,matplotlib.pyplot", "sklearn.linear_model", "pandas,sklearn.linear_model", "networkx",
    "sympy", "rich.console", "pydantic,httpx", "boto3,yaml", "cryptography.fernet",
    "asyncio,ssl,email.message", "bs4,lxml.etree", "polars", "numpy,scipy.stats", "pandas,boto3",
    "sqlalchemy,pydantic", "numpy,networkx", "sklearn.ensemble,requests", "rich.console,requests",
    "xml.etree.ElementTree,decimal", "jinja2,sqlalchemy", "numpy,sympy",
    "pandas,networkx,matplotlib.pyplot",
)  # fmt: skip
"""What programs import, the most frequent ones first."""

Environ = Mapping[str, str]


def counts(programs: int) -> list[int]:
    """How often each kind runs."""
    whole = sum(1 / n for n in range(1, len(KINDS) + 1))
    return [max(1, round(programs / n / whole)) for n in range(1, len(KINDS) + 1)]


def text(kind: str) -> str:
    return "\n".join(f"import {name}" for name in kind.split(","))


def pasture(environ: Environ, *words: str) -> None:
    subprocess.run([BIN / "pasture", *words], env=environ, check=True, stdout=subprocess.DEVNULL)


def status(environ: Environ) -> dict[str, Any]:
    path = Path(environ["XDG_RUNTIME_DIR"]) / "status.json"
    pasture(environ, "zygote", "status", "--json", str(path))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def record(environ: Environ, log: Path, how_often: Sequence[int]) -> None:
    for kind, count in zip(KINDS, how_often, strict=True):
        before = log.stat().st_size if log.exists() else 0
        run(kind, {**environ, "PASTURE_IMPORTS": str(log)})
        with log.open("r+b") as file:
            file.seek(before)
            line = file.read()
            file.write(line * (count - 1))


def run(kind: str, environ: Environ) -> tuple[float, float]:
    """Seconds from the start to the end, and of processor time."""
    began = time.perf_counter()
    pid = os.posix_spawn(BIN / "pasture-python", ["python", "-c", text(kind)], environ)
    _, ended, used = os.wait4(pid, 0)
    if ended:
        raise click.ClickException(f"a program that imports {kind} failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def make_each(environ: Environ) -> None:
    """An image for each kind, on top of the one without modules."""
    for number, kind in enumerate(KINDS):
        pasture(environ, "zygote", "start", "--name", f"kind-{number}", "--preload", kind)
    source = (
        "import sys, json; from pasture_zygote.client import ask; "
        "from pasture_zygote.command import python; "
        "ask({'do': 'route', 'python': python(), 'options': [], 'routes': json.load(sys.stdin)})"
    )
    routes = {
        ",".join(name.partition(".")[0] for name in kind.split(",")): f"kind-{number}"
        for number, kind in enumerate(KINDS)
    }
    subprocess.run(
        [sys.executable, "-c", source], env=environ, input=json.dumps(routes), text=True, check=True
    )


def own_bytes(environ: Environ) -> int:
    return sum(z["bytes"] for z in status(environ)["zygotes"] if z["name"] != "bare")


@click.command()
@click.option("--programs", default=1000, show_default=True)
@click.option("--share", default=0.5, show_default=True, help="Of the memory of an image a kind.")
@click.option("--supersets", is_flag=True, help="As for pasture image fit.")
def main(programs: int, share: float, supersets: bool) -> None:
    """Time of programs out of a fitted tree, and of an image for each kind."""
    how_often = counts(programs)
    with tempfile.TemporaryDirectory(prefix="fit-") as folder:
        environs = {}
        for name in ("each", "fitted"):
            place = Path(folder, name)
            place.mkdir(mode=0o700)
            environs[name] = {
                "PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": str(PACKAGES),
                "XDG_RUNTIME_DIR": str(place),
            }  # fmt: skip
        try:
            compare(environs, Path(folder, "log"), how_often, share, supersets)
        finally:
            for environ in environs.values():
                subprocess.run([BIN / "pasture", "zygote", "stop"], env=environ, check=False)


def compare(
    environs: Mapping[str, Environ],
    log: Path,
    how_often: Sequence[int],
    share: float,
    supersets: bool,
) -> None:
    record(environs["fitted"], log, how_often)
    click.echo(
        f"{len(KINDS)} kinds, {sum(how_often):,} programs, log of {log.stat().st_size:,} bytes"
    )
    make_each(environs["each"])
    each_bytes = own_bytes(environs["each"])
    budget = str(int(each_bytes * share / 1e6))
    words = ["image", "fit", str(log), "--budget", budget, "--apply", *["--supersets"] * supersets]
    began = time.perf_counter()
    subprocess.run([BIN / "pasture", *words], env=environs["fitted"], check=True)
    click.echo(f"fitted and made in {time.perf_counter() - began:.0f} s")
    fitted_bytes = own_bytes(environs["fitted"])
    order = [kind for kind, count in zip(KINDS, how_often, strict=True) for _ in range(count)]
    random.Random(1).shuffle(order)
    for environ in environs.values():  # each file has been read
        for kind in KINDS:
            run(kind, environ)
    found: dict[str, list[tuple[float, float]]] = {"each": [], "fitted": []}
    for number, kind in enumerate(order):
        for name in ("each", "fitted") if number % 2 else ("fitted", "each"):
            found[name].append(run(kind, environs[name]))
    show(found, order, each_bytes, fitted_bytes)
    for name, environ in environs.items():
        zygotes = status(environ)["zygotes"]
        served = sum(z["served"] for z in zygotes if z["name"] != "bare")
        click.echo(f"{name}: {served:,} programs out of an image with modules")


def show(
    found: Mapping[str, list[tuple[float, float]]],
    order: Sequence[str],
    each_bytes: int,
    fitted_bytes: int,
) -> None:
    for place, what in enumerate(("time", "processor time")):
        times = {name: [pair[place] for pair in pairs] for name, pairs in found.items()}
        each, fitted = (statistics.mean(times[name]) for name in ("each", "fitted"))
        medians = [statistics.median(times[name]) for name in ("each", "fitted")]
        click.echo(
            f"{what}: an image a kind {each * 1e3:.1f} ms, fitted {fitted * 1e3:.1f} ms, ratio "
            f"{fitted / each:.2f}; of medians {medians[1] / medians[0]:.2f}"
        )
    ratios = {
        kind: statistics.median(
            f[1] for k, f in zip(order, found["fitted"], strict=True) if k == kind
        )
        / statistics.median(e[1] for k, e in zip(order, found["each"], strict=True) if k == kind)
        for kind in KINDS
    }
    worst = sorted(ratios, key=lambda kind: -ratios[kind])[:5]
    click.echo("most behind: " + "; ".join(f"{kind} {ratios[kind]:.1f}" for kind in worst))
    click.echo(
        f"memory: an image a kind {each_bytes / 1e6:.0f} MB, fitted {fitted_bytes / 1e6:.0f} MB, "
        f"ratio {fitted_bytes / each_bytes:.2f}"
    )


if __name__ == "__main__":
    main()
