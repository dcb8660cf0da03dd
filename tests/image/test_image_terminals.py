"""Modules that ask for terminals while they are loaded: each program has the answers of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from images import BIN, SAID, STUB, STUB_SAYS, Images, read_until
from running import completed

from pasture_image.inside import record

pytestmark = [pytest.mark.integration]

QUESTIONS = (
    ("os.isatty(0)", 0),
    ("sys.stdout.isatty()", 1),
    ("os.get_terminal_size(2)", 2),
    ("termios.tcgetattr(0)", 0),
    ("fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8))", 1),
    ("os.tcgetpgrp(2)", 2),
    ("subprocess.run([sys.executable, '-c', ''], stdin=-1, stdout=-1)", 2),
)
NO_QUESTIONS = (
    "open('/dev/null').close()",
    "os.isatty(os.pipe()[0])",
    "fcntl.fcntl(1, fcntl.F_GETFL), os.fstat(0)",
    "subprocess.run([sys.executable, '-c', ''], stdin=-1, stdout=-1, stderr=-2)",
)
PROGRAM = """import fcntl, os, subprocess, sys, termios
for n, question in enumerate(sys.argv[1:]):
    os.path.exists(f"/asked/{n}")
    try:
        eval(question)
    except (OSError, termios.error):
        pass
os.path.exists("/asked/end")
"""
SHOWS = "import os, sys, {0}; print({0}.FOUND, [os.isatty(n) for n in range(3)])"
STREAMS = (), (0,), (1,), (2,), (0, 1, 2)


@pytest.mark.once
def test_the_kernel_records_who_is_asked_whether_it_is_a_terminal() -> None:
    number = os.memfd_create("record")
    questions = [*(one for one, _ in QUESTIONS), *NO_QUESTIONS]
    words = (STUB, "--pasture-record", number, sys.executable, "-c", PROGRAM, *questions)
    completed(words, stdin=subprocess.DEVNULL, pass_fds=[number], check=True)
    asked: dict[str, set[int]] = {}
    at = "start"
    for lookup in record.parsed(record.read(number)):
        if lookup.path.startswith("/asked/"):
            at = lookup.path
        elif lookup.call == "terminal":
            asked.setdefault(at, set()).add(lookup.flags)
    os.close(number)
    del asked["start"]
    assert asked == {f"/asked/{n}": {stream} for n, (_, stream) in enumerate(QUESTIONS)}


def run(images: Images, source: str, program: Path, streams: tuple[int, ...]) -> bytes:
    """What a program prints, some of whose standard streams are its terminal."""
    reader, writer = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in {0, 1, 2} - {*streams}:
            os.dup2(null if number == 0 else writer, number)
        environ = {**images.variables, **SAID, "TERM": "xterm"}
        os.execve(program, [str(program), "-c", source], environ)
    os.close(writer)
    out = read_until(reader) + read_until(terminal)
    os.close(reader)
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0, out
    return out.replace(b"\r\n", b"\n")


def test_a_program_has_its_own_terminals(own_images: Images) -> None:
    own_images.module("asks", "import sys; FOUND = sys.stdout.isatty()")
    own_images.built("--preload", "asks")
    assert ["terminal", "standard output"] in [
        [note["code"], note["subject"]] for note in own_images.document()["notes"]
    ]
    source = SHOWS.format("asks")
    assert own_images.run("-c", source).out == b"False [False, False, False]\n"
    for streams in STREAMS:
        expected = run(own_images, source, BIN / "python", streams)
        lines = run(own_images, source, STUB, streams).splitlines(keepends=True)
        said = [line for line in lines if line.startswith(STUB_SAYS)]
        assert [expected] == [line for line in lines if line not in said], streams
        assert (b"whether standard output is a terminal" in b"".join(said)) == (1 in streams), said


@pytest.mark.once
def test_a_terminal_is_a_programs_own_whatever_its_streams_are(own_images: Images) -> None:
    opens = "import os\ntry:\n  os.close(os.open('/dev/tty', 0))\n  FOUND = True\n"
    own_images.module("opens", f"{opens}except OSError:\n  FOUND = False\n")
    own_images.built("--preload", "opens")
    source = SHOWS.format("opens")
    assert own_images.why("-c", source, start_new_session=True) == ""
    assert run(own_images, source, STUB, ()).endswith(b"True [False, False, False]\n")
