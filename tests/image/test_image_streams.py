"""Streams that a preloaded module keeps are the program's: nothing is lost or out of order."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from images import BIN, STUB, Images, read_until

pytestmark = pytest.mark.integration

KEPT = """
import functools, logging, sys
out, err, given, raw = sys.stdout, sys.stderr, sys.stdin, getattr(sys.stdout.buffer, "raw", None)
say, buffer = functools.partial(print, file=out), sys.stdout.buffer
log = logging.getLogger("kept")
log.addHandler(logging.StreamHandler(sys.stderr))
def default(stream=sys.stdout):
    stream.write("default\\n")
"""
CHANGES = {
    "kept": "",
    "reconfigured": "sys.stdout.reconfigure(encoding='latin-1', errors='replace', "
    "line_buffering=True)",
    "detached": "import io\n"
    "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'latin-1', 'replace')\n"
    "out = sys.stdout; say = functools.partial(print, file=out)",
    "replaced": "import codecs\nsys.stdout = codecs.getwriter('utf-16')(sys.stdout.buffer)",
    "closed": "sys.stdin.close()",
}
PROGRAM = """
import kept, logging, sys
print("one"); kept.say("two"); print("three \\u20ac")
kept.out.write("four\\n"); kept.default(); kept.log.warning("logged")
print("error", file=sys.stderr)
kept.out.flush()
kept.buffer.write(b"bytes\\n"); print("five", file=kept.out); kept.err.write("written")
print(sys.stdin.closed, kept.given is sys.stdin, sys.stdin.closed or sys.stdin.readline())
print(kept.given.closed or kept.given.read(3))
for s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, kept.out):
    if getattr(s, "closed", False): continue
    print([getattr(s, n, None) for n in ("name", "mode", "encoding", "errors", "newlines",
          "line_buffering", "write_through")], s.isatty(), s.fileno(),
          # Kept by the lowest layer for good, where that is all there is.
          sys.stderr.line_buffering and s.seekable())
kept.say("last", end="")
"""


Words = list[Path | str]


@pytest.mark.once
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("option", [(), ("-u",)])
def test_kept_streams_are_the_programs(
    own_images: Images, tmp_path: Path, change: str, option: tuple[str, ...]
) -> None:
    own_images.module("kept", f"{KEPT}{CHANGES[change]}\n")
    own_images.built("--preload", "kept", f"--options={''.join(option)}")
    (tmp_path / "program.py").write_text(PROGRAM)
    words = (*option, str(tmp_path / "program.py"))
    assert own_images.why(*words, input=b"a\nbcd\n") == ""
    for shown in (written_to_a_pipe, written_to_a_file, shown_on_a_terminal):
        by_image, by_python = (
            shown([program, *words], own_images.variables, tmp_path / "out")
            for program in (STUB, BIN / "python")
        )
        assert by_image == by_python
        assert b"last" in by_python.replace(b"\0", b"")


def written_to_a_pipe(words: Words, environ: dict[str, str], _: Path) -> bytes:
    """Both streams into one: the order counts."""
    done = subprocess.run(words, input=b"a\nbcd\n", env=environ, stdout=-1, stderr=-2, check=False)
    return done.stdout + bytes(done.returncode)


def written_to_a_file(words: Words, environ: dict[str, str], path: Path) -> bytes:
    """What stands in a file that is appended to, behind what was there."""
    path.write_bytes(b"before\n")
    with path.open("ab") as file:
        subprocess.run(words, stdin=-3, stdout=file, stderr=file, env=environ, check=False)
    return path.read_bytes()


def shown_on_a_terminal(words: Words, environ: dict[str, str], _: Path) -> bytes:
    """What a program shows on a terminal where two lines are typed."""
    above, below = pty.openpty()
    os.write(above, b"a\nbcd\n")
    shown = b""
    while shown != b"a\r\nbcd\r\n":  # the kernel's echo comes when a thread of its own has run
        shown += os.read(above, 1 << 16)
    process = subprocess.Popen(words, stdin=below, stdout=below, stderr=below, env=environ)
    os.close(below)
    shown += read_until(above)
    os.close(above)
    return shown + bytes(process.wait())


@pytest.mark.interpreter
def test_a_program_on_standard_input_is_read_as_far_as_the_interpreter_reads(
    images: Images, own_images: Images
) -> None:
    program = b"import os\nprint(os.read(0, 100))\n# not read by then\n"
    own_images.built("--preload", "json", "--options=-u")
    for each, words in ((own_images, ["-u"]), (images, [])):
        assert each.served(*words, input=program) == each.python(*words, input=program)


HOLDS_A_CYCLE = """
import multiprocessing, os
class End:
    def __del__(self): os.write(1, b"deleted")
def task(): pass
END = End(); END.cycle = END
with multiprocessing.get_context("fork").Pool(1) as pool: pool.apply(task)
"""


def test_what_a_program_holds_ends_with_it(images: Images, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(HOLDS_A_CYCLE)
    ended = images.run(str(tmp_path / "pool.py"), environ={"PASTURE": "seal"})
    assert (ended.status, ended.out) == (0, b"deleted") and b": sealed" in ended.err
