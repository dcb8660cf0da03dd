"""Runs a program: by `python`, and in each way in which pasture runs one."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from alike import Outcome
from generator import Program
from rounds import HANGS

BIN = Path(sys.executable).parent
STUB = BIN / "pasture-python"
PRELOADED = (
    "json,decimal,random,uuid,ssl,secrets,tempfile,asyncio,logging.handlers,sqlite3,ctypes,"
    "multiprocessing.pool,concurrent.futures.process,numpy.random"
)
TIMEOUT_S = 25.0
OURS = re.compile(rb"^(?:.* )?pasture(?:-python|\.[a-z.]+)?: .*\n", re.MULTILINE)
"""Lines of pasture's own."""
NAMED_AT_RANDOM = re.compile(r"[a-z0-9_]{8}$")
"""The end of a name that tempfile has made."""
UNORDERED = ("fork_both('", "target=fork_and_wait")
"""Two at a time have no order, nor has a child and the warning that a thread has forked it."""

MODES = ("plain", "run", "seal", "image", "image-seal")


def fits(mode: str, one: Program) -> bool:
    """Whether a mode takes a program: `pasture run` passes no option of the interpreter on."""
    return mode != "run" or not (one.options or one.way in ("command", "joined", "input"))


def command(mode: str, one: Program, folder: Path) -> list[str]:
    words = one.words(folder)
    if mode == "run":
        return [str(BIN / "pasture"), "run", "--", "python", *words]
    program = STUB if mode.startswith("image") else BIN / "python"
    return [str(program), *one.options, *words]


def environ_of(mode: str, one: Program, base: Mapping[str, str], image: Path) -> dict[str, str]:
    found = {**base, "TMPDIR": base["HOME"] + "/tmp", **one.variables}
    if mode.startswith("image"):
        found["PASTURE_IMAGE"] = str(image)
    if mode.endswith("seal"):
        found["PASTURE"] = "seal"
    return found


def build_image(image: Path, environ: Mapping[str, str]) -> None:
    """Raises CalledProcessError."""
    words = [sys.executable, "-m", "pasture", "image", "build", "-o", str(image)]
    subprocess.run([*words, "--preload", PRELOADED], env=environ, check=True, capture_output=True)


def set_up(one: Program, folder: Path) -> Callable[[], None]:
    """What the child does before it executes the interpreter."""

    def surroundings() -> None:
        os.chdir(folder)
        os.umask(one.umask)
        os.nice(one.nice)
        for number in one.ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, one.blocked)
        for number in one.opened:
            os.dup2(os.open("/dev/null", os.O_RDWR), number)
        for number in one.closed:
            os.close(number)

    return surroundings


def outcome(mode: str, one: Program, base: Mapping[str, str], image: Path, folder: Path) -> Outcome:
    """How a program ends in a mode; its folders are emptied first."""
    temporary = Path(base["HOME"], "tmp")
    for each in (folder, temporary):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    (folder / "program.py").write_text(one.source, "utf-8")
    (folder / "lines.txt").write_text("one\ntwo\nthree\n")
    printed = folder.parent / "printed"
    with (
        (folder.parent / "input").open("w+b") as stdin,
        printed.open("w+b") as stdout,
        (folder.parent / "errors").open("w+b") as stderr,
    ):
        stdin.write(one.input)
        stdin.seek(0)
        piped = one.stdout == "pipe"
        cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=stdout) if piped else None
        process = subprocess.Popen(
            command(mode, one, folder),
            env=environ_of(mode, one, base, image),
            stdin=stdin,
            stdout=stdout if cat is None else cat.stdin,
            stderr=stderr,
            preexec_fn=set_up(one, folder),
            close_fds=False,
            start_new_session=True,
        )
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = HANGS
        end(process)
        if cat is not None and cat.stdin is not None:
            cat.stdin.close()
            try:
                cat.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                status = HANGS + 1
                cat.kill()
                cat.wait()
        stdout.seek(0)
        stderr.seek(0)
        texts = {"stdout": bare(stdout.read()), "stderr": bare(stderr.read())}
        if any(each in one.source for each in UNORDERED):
            texts = {name: "\n".join(sorted(text.splitlines())) for name, text in texts.items()}
    left = [NAMED_AT_RANDOM.sub("", path.name) for path in temporary.iterdir()]
    texts["temporary"] = " ".join(sorted(left))
    return Outcome(status, {**texts, **left_in(folder)}, notes_of(folder / "notes"))


def end(process: subprocess.Popen[bytes]) -> None:
    """A program that goes on, and what it has left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def bare(text: bytes) -> str:
    """Without lines of pasture's own and addresses; and a traceback out of a finalizer without its
    source line, which docs/image.md says it may show."""
    text = re.sub(rb"0x[0-9a-f]+", b"0x", OURS.sub(b"", text))
    text = re.sub(rb"(, in __del__\n)    .*\n(?:    [ ~^]+\n)?", rb"\1", text)
    return text.decode("utf-8", "backslashreplace")


def left_in(folder: Path) -> dict[str, str]:
    """Names of the files that a program has left, their rights, and the content of texts."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name in ("notes", "program.py", "__pycache__"):
            continue
        content = path.read_bytes() if path.suffix == ".txt" else b""
        name = path.name if path.suffix else "a temporary file"
        found[f"file {name}"] = f"{path.stat().st_mode:o} {bare(content)}"
    return found


def notes_of(path: Path) -> dict[tuple[str, int, str], str]:
    found: dict[tuple[str, int, str], str] = {}
    if path.exists():
        for line in path.read_text("utf-8", "backslashreplace").splitlines():
            role, number, what, value = ast.literal_eval(line)
            value = re.sub(r"0x[0-9a-f]+", "0x", value)
            while (role, number, what) in found:
                number += 1000
            found[role, number, what] = value
    return found
