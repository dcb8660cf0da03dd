"""Processes out of a zygote beside `python` and beside a fork server that seals nothing.

Times from start to end; the memory of sessions that have worked and stay; kernels until they
answer. Memory of a zygote counts in full: the server, and its images whether mapped or not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

BIN = Path(sys.executable).parent
PYTHON, STUB = BIN / "python", BIN / "pasture-python"
PACKAGES = Path(sys.prefix) / "zygote-packages"
TIMEOUT_S = 900.0

STARTS = ("pass", "import numpy, pandas")
SESSION = Path(__file__).with_name("zygote_session.py")
REHEARSAL = Path(__file__).with_name("zygote_rehearsal.py")
FORK_SERVER = Path(__file__).with_name("zygote_fork_server.py")
KERNEL_MODULES = "pasture.zygote.jupyter"

Environ = Mapping[str, str]


@contextmanager
def zygotes(*starts: Sequence[str]) -> Iterator[Environ]:
    """A server in a folder of its own; the environment for its programs."""
    with tempfile.TemporaryDirectory(prefix="zygote-") as folder:
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PASTURE_"))},
            "XDG_RUNTIME_DIR": folder,
            "PYTHONPATH": str(PACKAGES),
            "IPYTHONDIR": f"{folder}/ipython",
        }
        try:
            for words in starts:
                pasture(environ, "start", *words)
            yield environ
        finally:
            pasture(environ, "stop", check=False)


def pasture(environ: Environ, *words: str, check: bool = True) -> None:
    command = [str(PYTHON), "-m", "pasture", "zygote", *words]
    subprocess.run(command, env=environ, check=check, stdout=subprocess.DEVNULL)


def status(environ: Environ) -> dict[str, Any]:
    path = Path(environ["XDG_RUNTIME_DIR"]) / "status.json"
    pasture(environ, "status", "--json", str(path))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def server_pid(environ: Environ) -> int:
    return int(status(environ)["pid"])


def require_served(environ: Environ, count: int) -> None:
    served = sum(zygote["served"] for zygote in status(environ)["zygotes"])
    if served < count:
        raise click.ClickException(f"{served} of {count} programs came out of the zygote")


# -- times


def seconds(program: Path, source: str, environ: Environ) -> float:
    began = time.perf_counter()
    subprocess.run([program, "-c", source], env=environ, check=True)
    return time.perf_counter() - began


def show_times(rounds: int) -> None:
    with zygotes(["--preload", "numpy,pandas"]) as environ:
        for source in STARTS:
            pairs = [
                (seconds(PYTHON, source, environ), seconds(STUB, source, environ))
                for _ in range(rounds)
            ]
            by_python, by_zygote = map(statistics.median, zip(*pairs, strict=True))
            ratios = sorted(zygote / python for python, zygote in pairs)
            click.echo(
                f"{source:22} python {by_python * 1e3:7.1f} ms  zygote {by_zygote * 1e3:6.1f} ms  "
                f"ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f}-{ratios[-1]:.4f})"
            )


# -- memory


def rollup(pid: int) -> dict[str, int]:
    """Figures of `smaps_rollup`, bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    words = (line.split() for line in lines)
    return {name.rstrip(":"): 1024 * int(figure) for name, figure, *_ in words}


def image_bytes(server: int) -> int:
    """What the images of a server take, whether anybody has them mapped or not."""
    found = {}
    for entry in Path(f"/proc/{server}/fd").iterdir():
        if "pasture-zygote" in str(entry.readlink()):
            status = entry.stat()
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def require_mapped(pids: Sequence[int]) -> None:
    """Each of the processes must have come out of an image."""
    if not all("pasture-zygote" in Path(f"/proc/{pid}/maps").read_text() for pid in pids):
        raise click.ClickException("a program did not come out of the zygote")


@contextmanager
def sessions(start: Callable[[], subprocess.Popen[bytes]], count: int) -> Iterator[list[int]]:
    """Sessions that have done their work and stay until the end of the block; their pids."""
    processes = [start() for _ in range(count)]
    try:
        yield [answer(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def answer(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise click.ClickException("a session ended before it was measured")
    return int(line)


def session(program: Path, environ: Environ) -> subprocess.Popen[bytes]:
    return subprocess.Popen([program, SESSION], env=environ, stdout=subprocess.PIPE)


def sum_of_pss(pids: Sequence[int]) -> int:
    return sum(rollup(pid)["Pss"] for pid in pids)


def memory_of_zygote(environ: Environ, count: int) -> int:
    with sessions(lambda: session(STUB, environ), count) as pids:
        server = server_pid(environ)
        require_mapped(pids)
        figures = [rollup(pid) for pid in (*pids, server)]
        own = sum(figure["Pss"] - figure["Pss_Shmem"] for figure in figures)
        return own + image_bytes(server)


def memory_of_python(environ: Environ, count: int) -> int:
    with sessions(lambda: session(PYTHON, environ), count) as pids:
        return sum_of_pss(pids)


def memory_of_fork_server(environ: Environ, count: int) -> int:
    process = subprocess.Popen(
        [PYTHON, FORK_SERVER, f"{count}"],
        env=environ,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        pids = [int(process.stdout.readline()) for _ in range(count)]
        return sum_of_pss([*pids, process.pid])
    finally:
        process.communicate()


def show_memory(count: int) -> None:
    modules = ("--preload", "numpy,pandas,sklearn.linear_model")
    with zygotes([*modules, "--rehearse", str(REHEARSAL)]) as environ:
        totals = {"rehearsed": memory_of_zygote(environ, count)}
    with zygotes(modules) as environ:
        totals["zygote"] = memory_of_zygote(environ, count)
        totals["fork server"] = memory_of_fork_server(environ, count)
        totals["python"] = memory_of_python(environ, count)
    for name, total in totals.items():
        ratios = "  ".join(f"{n} {totals[n] / total:.3f}" for n in ("zygote", "rehearsed"))
        click.echo(
            f"{name:12} {count} sessions {total / 1e6:8.0f} MB  {total / count / 1e6:6.1f} MB each"
            f"  of it {ratios}"
        )


# -- kernels


def kernels(program: Path, environ: Environ, count: int) -> tuple[float, float]:
    """Seconds until so many kernels have answered, started at once; of processors, too."""
    script = Path(__file__).with_name("zygote_kernels.py")
    command = [str(PYTHON), str(script), str(program), f"{count}"]
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    if program == STUB:
        require_served(environ, count)
    seconds, used = map(float, done.stdout.split())
    return seconds, used


def show_kernels(count: int, rounds: int) -> None:
    with zygotes(["--preload", KERNEL_MODULES]) as environ:
        kernels(PYTHON, environ, 1)  # makes the history's database
        for _ in range(rounds):
            pairs = zip(*(kernels(p, environ, count) for p in (STUB, PYTHON)), strict=True)
            for what, (by_zygote, by_python) in zip(("ready", "of processors"), pairs, strict=True):
                click.echo(
                    f"{count} kernels {what}: python {by_python:.1f} s, zygote {by_zygote:.1f} s, "
                    f"ratio {by_zygote / by_python:.3f}"
                )


@click.command(help=__doc__)
@click.option("--part", type=click.Choice(["times", "memory", "kernels"]), multiple=True)
@click.option("--rounds", default=15, show_default=True, help="Of the times.")
@click.option("--sessions", "session_count", default=50, show_default=True)
@click.option("--kernels", "kernel_count", default=100, show_default=True)
def main(part: Sequence[str], rounds: int, session_count: int, kernel_count: int) -> None:
    part = part or ("times", "memory", "kernels")
    if "times" in part:
        show_times(rounds)
    if "memory" in part:
        show_memory(session_count)
    if "kernels" in part:
        show_kernels(kernel_count, 1)


if __name__ == "__main__":
    main()
