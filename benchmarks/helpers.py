"""Helper processes of editors and agents: each by `python`, and all out of one image file.

A server of tools (mcp), a language server (jedi), a kernel of Jupyter, a hook of pre-commit. Times
from the start of a process to its first answer, or to its end, one at a time and in turns; PSS of
many that have had a conversation and wait.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import click

from benchmarks.image import PYTHON, STUB, Environ, build_rehearsed, environment, require_started
from examples.helpers import conversation, sessions
from pasture.proc import smaps

PACKAGES = Path(sys.prefix) / "helper-packages"
EXAMPLES = Path(__file__).parents[1] / "examples" / "helpers"
TIMEOUT_S = 120.0
SETTLE_S = 2.0

Running = Callable[[Path, Environ], AbstractContextManager[tuple[int, float]]]
"""Starts a process; gives its id, and seconds until it answered first, once it waits."""


@contextmanager
def stdio_server(
    program: Path, environ: Environ, words: Sequence[str], session: Any, *, framed: bool
) -> Iterator[tuple[int, float]]:
    began, first = time.perf_counter(), 0.0
    process = subprocess.Popen(
        [program, *words], env=environ, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip
    out, answers = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
    try:
        for message in session:
            conversation.send(out, message, framed=framed)
            if "id" in message:
                answer: Mapping[str, Any] = {}
                while answer.get("id") != message["id"]:
                    answer = conversation.receive(answers, framed=framed)
                if "result" not in answer:
                    raise click.ClickException(f"{message['method']}: {answer}")
                first = first or time.perf_counter() - began
        yield process.pid, first
    finally:
        process.kill()
        process.communicate()


def tools(program: Path, environ: Environ) -> AbstractContextManager[tuple[int, float]]:
    words = ("-c", "from notes import main; main()")
    return stdio_server(program, environ, words, sessions.TOOLS, framed=False)


def language(program: Path, environ: Environ) -> AbstractContextManager[tuple[int, float]]:
    words = ("-c", "from jedi_language_server.cli import cli; cli()")
    return stdio_server(program, environ, words, sessions.EDITOR, framed=True)


@contextmanager
def kernel(program: Path, environ: Environ) -> Iterator[tuple[int, float]]:
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.connect import write_connection_file

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/connection.json"
        place = f"{folder}/channel"
        _, settings = write_connection_file(file, ip=place, transport="ipc", key=b"kernels")
        client = BlockingKernelClient(connection_file=file)
        client.load_connection_file()
        began = time.perf_counter()
        command = [str(program), "-m", "ipykernel_launcher", "--HistoryManager.hist_file=:memory:"]
        process = subprocess.Popen(
            [*command, "-f", file],
            env=environ,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not Path(f"{place}-{settings['shell_port']}").exists():
                time.sleep(0.001)  # a client that connects before it is there tries again later
            client.start_channels(stdin=False, hb=False)
            client.kernel_info()
            client.get_shell_msg(timeout=TIMEOUT_S)
            first = time.perf_counter() - began
            client.execute("print(6 * 7)", reply=True, timeout=TIMEOUT_S)
            yield process.pid, first
        finally:
            client.stop_channels()
            process.kill()
            process.wait()


@contextmanager
def hook(program: Path, environ: Environ) -> Iterator[tuple[int, float]]:
    began = time.perf_counter()
    words = ("--quiet", "--check", "--no-cache", "--line-length=100", conversation.__file__)
    command = [str(program), "-m", "black", *words]
    subprocess.run(command, env=environ, check=True, cwd="/")
    yield 0, time.perf_counter() - began


class Helper(NamedTuple):
    name: str
    rehearsal: str
    running: Running
    more: tuple[str, ...] = ()
    stays: bool = True


HELPERS = {
    "mcp": Helper("server of tools", "notes", tools),
    "jedi": Helper("language server", "jedi", language, ("--preload", "jedi_parsed")),
    "kernel": Helper("kernel of Jupyter", "kernel", kernel, ("--allow=output", "--allow=folder")),
    "black": Helper("hook: black", "black", hook, stays=False),
}


def ratios(pairs: Sequence[tuple[float, float]]) -> str:
    found = sorted(image / python for python, image in pairs)
    return f"{statistics.median(found):.3f} ({found[0]:.3f}-{found[-1]:.3f})"


def show_starts(helper: Helper, environ: Environ, rounds: int) -> None:
    pairs = []
    for _ in range(rounds):
        pair = []
        for program in (PYTHON, STUB):
            with helper.running(program, environ) as (_, seconds):
                pair.append(seconds)
        pairs.append((pair[0], pair[1]))
    by_python, by_image = (statistics.median(column) for column in zip(*pairs, strict=True))
    click.echo(
        f"{helper.name:18} first answer: python {by_python * 1e3:5.0f} ms, image"
        f" {by_image * 1e3:4.0f} ms, ratio {ratios(pairs)}"
    )


def show_memory(helper: Helper, environ: Environ, count: int) -> None:
    found = []
    for program in (PYTHON, STUB):
        with ExitStack() as stack:
            pids = [stack.enter_context(helper.running(program, environ))[0] for _ in range(count)]
            time.sleep(SETTLE_S)
            found.append(float(smaps.total_pss_bytes(pids) or 0))
    by_python, by_image = found
    click.echo(
        f"{helper.name:18} PSS of {count}: python {by_python / 1e6:5.0f} MB, image"
        f" {by_image / 1e6:4.0f} MB, ratio {by_image / by_python:.3f}"
    )


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*HELPERS]))
@click.option("--count", default=50, show_default=True, help="Processes that wait.")
@click.option("--rounds", default=7, show_default=True, help="Pairs of starts.")
def main(names: tuple[str, ...], count: int, rounds: int) -> None:
    """Time to the first answer and PSS of helper processes, by python and out of an image."""
    sys.path.append(str(PACKAGES))
    for name in names or HELPERS:
        helper = HELPERS[name]
        with tempfile.TemporaryDirectory(prefix="helpers-") as folder:
            environ = {**environment(folder, PACKAGES), "IPYTHONDIR": f"{folder}/ipython"}
            environ["PYTHONPATH"] = os.pathsep.join((str(PACKAGES), str(EXAMPLES)))
            program = EXAMPLES / f"rehearse_{helper.rehearsal}.py"
            build_rehearsed(environ, program, *helper.more)
            require_started(environ)
            show_starts(helper, environ, rounds)
            if helper.stays:
                show_memory(helper, environ, count)


if __name__ == "__main__":
    main()
