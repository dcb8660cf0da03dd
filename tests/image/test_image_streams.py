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


Kept = dict[str, Images]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """For each thing that a module does to its streams, and with -u: an image."""
    found = {}
    for change, text in CHANGES.items():
        folder = tmp_path_factory.mktemp("kept")
        Images(folder).module("kept", f"{KEPT}{text}\n")
        for name, options in ((change, ""), (f"{change} -u", "-u")):
            images = found[name] = Images(folder)
            images.image = folder / f"{options}.img"
            images.built("--preload", "kept", f"--options={options}")
    return found


@pytest.mark.once
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("variant", ["", " -u"])
def test_kept_streams_are_the_programs(
    kept: Kept, tmp_path: Path, change: str, variant: str
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    images = kept[f"{change}{variant}"]
    environ = images.variables
    words = [*(["-u"] if variant else []), str(tmp_path / "program.py")]
    assert images.why(*words, input=b"a\nbcd\n") == ""
    # Both into one pipe: the order counts.
    results = [
        subprocess.run(
            [program, *words], input=b"a\nbcd\n", env=environ, stdout=-1, stderr=subprocess.STDOUT,
            check=False,
        )
        for program in (STUB, BIN / "python")
    ]  # fmt: skip
    assert (results[0].returncode, results[0].stdout) == (results[1].returncode, results[1].stdout)
    assert b"last" in results[0].stdout.replace(b"\0", b"")
    on_file = [written_to_a_file(program, words, environ, tmp_path / "out")
               for program in (STUB, BIN / "python")]  # fmt: skip
    assert on_file[0] == on_file[1]
    on_terminal = [
        shown_on_a_terminal(program, words, environ) for program in (STUB, BIN / "python")
    ]
    assert on_terminal[0] == on_terminal[1]


def written_to_a_file(
    program: Path, words: list[str], environ: dict[str, str], path: Path
) -> bytes:
    """What stands in a file that is appended to, behind what was there."""
    path.write_bytes(b"before\n")
    with path.open("ab") as file:
        subprocess.run(
            [program, *words], stdin=-3, stdout=file, stderr=file, env=environ, check=False
        )
    return path.read_bytes()


def shown_on_a_terminal(program: Path, words: list[str], environ: dict[str, str]) -> bytes:
    """What a program shows on a terminal where two lines are typed."""
    above, below = pty.openpty()
    os.write(above, b"a\nbcd\n")
    shown = b""
    while shown != b"a\r\nbcd\r\n":  # the kernel's echo comes when a thread of its own has run
        shown += os.read(above, 1 << 16)
    process = subprocess.Popen(
        [program, *words], stdin=below, stdout=below, stderr=below, env=environ
    )
    os.close(below)
    shown += read_until(above)
    os.close(above)
    return shown + bytes(process.wait())


@pytest.mark.interpreter
def test_a_program_on_standard_input_is_read_as_far_as_the_interpreter_reads(
    own_images: Images,
) -> None:
    program = b"import os\nprint(os.read(0, 100))\n# not read by then\n"
    for words in (["-u"], []):
        own_images.built("--preload", "json", *(f"--options={word}" for word in words))
        assert own_images.run(*words, input=program) == own_images.python(*words, input=program)
        assert own_images.why(*words, input=program) == ""


def test_a_file_in_a_cycle_of_names_and_functions_is_written_at_the_end(
    images: Images, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "def main():\n    global FILE\n    FILE = open('out', 'w')\n    FILE.write('kept')\n"
        "main()\n"
    )
    assert images.why(str(program), cwd=tmp_path) == ""
    assert (tmp_path / "out").read_text() == "kept"


def test_what_a_program_holds_that_is_sealed_itself_ends_with_it(
    images: Images, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os\nclass End:\n    def __del__(self): os.write(1, b'deleted')\n"
        "def task(): pass\ndef main():\n    global END\n    END = End(); END.cycle = END\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool: pool.apply(task)\n"
        "if __name__ == '__main__': main()\n"
    )
    ended = images.run(str(program), environ={"PASTURE": "seal"})
    assert (ended.status, ended.out) == (0, b"deleted") and b"sealed, " in ended.err
