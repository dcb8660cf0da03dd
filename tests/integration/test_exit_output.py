"""What a process holds unwritten at its end is written, as finalization would write it.

The oracle is CPython itself: the same program without pasture.
"""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.interpreter

BEFORE = "import pasture; pasture.seal()\n"
FORK = """
pid = os.fork()
if pid:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(status)
"""


def run(folder, program, *, sealed, in_child, read=subprocess.Popen.communicate):
    """The status, the output, the errors of a program, and the files that it has made."""
    folder.mkdir()
    source = "import os, sys\n" + BEFORE * sealed + FORK * in_child + program
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", source],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        output, errors = read(process)
    return process.returncode, output, errors


LATE_S = 1  # longer than any lock is waited for


def read_late(process):
    time.sleep(LATE_S)
    return process.communicate()


SLOW = """
import threading
from pasture.sealing import exit
exit.LOCK_LIMIT_S = 0.5
threading.Thread(target=threading.Event().wait, daemon=True).start()
sys.stdout.write("x" * 300_000)
class Slow:
    def close(self): pass
    def write(self): pass
    def __del__(self):
        import time
        time.sleep({late_s})
        os.write(2, b"destroyed")
slow = Slow()
"""


def test_the_end_waits_for_a_slow_reader_and_a_slow_destructor(tmp_path):
    program = SLOW.format(late_s=LATE_S)

    def seen(in_child):
        folder = tmp_path / f"{in_child=}"
        return run(folder, program, sealed=True, in_child=in_child, read=read_late)

    expected = (0, b"x" * 300_000, b"destroyed")
    with ThreadPoolExecutor(2) as both:  # side by side, as both wait
        itself, child = both.map(seen, [False, True])
    assert itself == expected
    assert child == expected


STACKS = """
import bz2, codecs, gc, gzip, io, lzma, random, wave, zipfile
lines = "".join(str(random.Random(n).random()) + "\\n" for n in range(5000))
kept = {}
for name, make in {
    "gzip": lambda: gzip.open("gzip", "wt"),
    "gzip in gzip": lambda: gzip.open(gzip.open("gzip in gzip", "wb"), "wt"),
    "gzip above a stream": lambda: gzip.open(open("gzip above a stream", "wb"), "wt"),
    "bz2": lambda: bz2.open("bz2", "wt"),
    "xz": lambda: lzma.open("xz", "wt"),
    "bz2 above gzip": lambda: bz2.open(gzip.open("bz2 above gzip", "wb"), "wt"),
    "codecs": lambda: codecs.open("codecs", "w", "utf-16"),
    "text above two buffers": lambda: io.TextIOWrapper(
        io.BufferedWriter(open("text above two buffers", "wb", buffering=100_000), 1_000_000)
    ),
}.items():
    kept[name] = make()
    kept[name].write(lines)
kept["zip"] = zipfile.ZipFile("zip", "w", zipfile.ZIP_DEFLATED)
kept["zip"].writestr("one", lines)
member = zipfile.ZipFile(open("member", "wb"), "w").open("one", "w")
kept["member"] = io.TextIOWrapper(member)
kept["member"].write(lines)
kept["wave"] = wave.open("wave", "wb")
kept["wave"].setparams((1, 1, 8000, 0, "NONE", "NONE"))
kept["wave"].writeframesraw(b"sound" * 1000)
{collect}
"""

READ = {
    "gzip": "gzip.open(path).read()",
    "gzip in gzip": "gzip.open(gzip.open(path)).read()",
    "gzip above a stream": "gzip.open(path).read()",
    "bz2": "bz2.open(path).read()",
    "xz": "lzma.open(path).read()",
    "bz2 above gzip": "bz2.open(gzip.open(path)).read()",
    "codecs": "open(path, encoding='utf-16').read().encode()",
    "text above two buffers": "open(path, 'rb').read()",
    "zip": "zipfile.ZipFile(path).read('one')",
    "member": "zipfile.ZipFile(path).read('one')",
    "wave": "wave.open(str(path)).readframes(-1)",
}


def contents(folder):
    import bz2
    import gzip
    import lzma
    import wave
    import zipfile

    modules = {"bz2": bz2, "gzip": gzip, "lzma": lzma, "wave": wave, "zipfile": zipfile}
    found = {}
    for name, expression in READ.items():
        try:
            found[name] = eval(expression, {**modules, "path": folder / name})
        except Exception as error:
            found[name] = error
    return found


@pytest.mark.parametrize("in_child", [False, True], ids=["itself", "child"])
@pytest.mark.parametrize("collect", ["", "gc.collect()", "gc.collect(); gc.collect(0)"])
def test_what_stacked_writers_hold_arrives(tmp_path, in_child, collect):
    program = STACKS.replace("{collect}", collect)
    assert run(tmp_path / "a", program, sealed=True, in_child=in_child) == (0, b"", b"")
    found = contents(tmp_path / "a")
    assert not {name: error for name, error in found.items() if isinstance(error, Exception)}
    sound = found.pop("wave")
    assert sound == b"sound" * 1000
    assert len({*found.values()}) == 1 and len(found["gzip"]) > 90_000


RAISING = """
import io
class Leaves(io.BufferedWriter):
    def flush(self): raise {error}
class LeavesLater(io.RawIOBase):
    def writable(self): return True
    def close(self): raise {error}
others = [open(f"before {n}", "w") for n in range(3)]
raising = [Leaves(open("raises", "wb", buffering=0)), LeavesLater()]
others += [open(f"after {n}", "w") for n in range(3)]
for one in others: one.write("all")
"""


@pytest.mark.once
@pytest.mark.parametrize("error", ["SystemExit(7)", "KeyboardInterrupt", "OSError"])
@pytest.mark.parametrize("in_child", [False, True], ids=["itself", "child"])
def test_a_file_that_raises_keeps_no_other_from_being_written(tmp_path, error, in_child):
    program = RAISING.replace("{error}", error)
    status, _, _ = run(tmp_path / "a", program, sealed=True, in_child=in_child)
    written = {path.name: path.read_text() for path in (tmp_path / "a").iterdir()}
    assert status == 0
    del written["raises"]
    assert list(written.values()) == ["all"] * 6


INHERITED = """
import gzip
log = gzip.open("log", "wt"); log.write("the parent's\\n")
import pasture; pasture.seal()
pid = os.fork()
if pid == 0: sys.exit()
os.waitpid(pid, 0)
log.write("and more\\n")
"""


def test_a_child_does_not_end_an_archive_of_its_parent(tmp_path):
    assert run(tmp_path / "a", INHERITED, sealed=False, in_child=False) == (0, b"", b"")
    import gzip

    assert gzip.open(tmp_path / "a" / "log").read() == b"the parent's\nand more\n"


UNWRITTEN = """
import gzip, os
import pasture
from pasture.sealing import exit
text, archive = open("text", "w"), gzip.open("archive", "wb")
text.write("of the parent, "); archive.write(b"one")
pid = os.fork()
if not pid:
    {first}
    pasture.seal()
    os._exit(0)
os.waitpid(pid, 0)
text.write("at its end"); archive.write(b" and two")
text.close(); archive.close()
print(open("text").read(), gzip.open("archive").read())
"""


def test_a_child_that_seals_writes_nothing_of_its_parents_files(tmp_path):
    status, output, _ = run(
        tmp_path / "a", UNWRITTEN.format(first="pass"), sealed=False, in_child=False
    )
    assert (status, output) == (0, b"of the parent, at its end b'one and two'\n")


def test_a_child_that_takes_its_files_over_writes_them(tmp_path):
    program = """
import os
import pasture
from pasture.sealing import exit
text = open("text", "w")
pid = os.fork()
if not pid:
    text.write("of the child")
    exit.take_over_files()
    pasture.seal()
    os._exit(0)
os.waitpid(pid, 0)
print(open("text").read())
"""
    status, output, _ = run(tmp_path / "a", program, sealed=False, in_child=False)
    assert (status, output) == (0, b"of the child\n")


NOT_FLUSHED = {
    "detached": "sys.stdout.detach()",
    "raises": """
class Raising:
    def flush(self):
        raise RuntimeError("of a flush")
sys.stdout = Raising()""",
    "heard by a hook": """
sys.stdout.detach()
sys.unraisablehook = lambda found: os.write(2, repr((found.err_msg, found.exc_value)).encode())""",
}


@pytest.mark.parametrize("case", NOT_FLUSHED)
def test_what_stdout_could_not_write_is_reported_as_without_pasture(case, tmp_path):
    plain, sealed = (
        run(tmp_path / f"{is_sealed}", NOT_FLUSHED[case], sealed=is_sealed, in_child=True)
        for is_sealed in (False, True)
    )
    assert plain[0] == 120 and plain[2]
    where = rb"0x\w+|line \d+"  # the call that seals is a line more
    assert re.sub(where, b"", sealed[2]) == re.sub(where, b"", plain[2])
    assert sealed[:2] == plain[:2]
