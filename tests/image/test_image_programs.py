"""The same program gives the same by `pasture-python` as by `python`: output, errors, status."""

from __future__ import annotations

import itertools
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from images import BIN, SAID, Ended, Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

# fmt: off
PROGRAMS = {
    "namespace": "print(sorted(globals()), __name__, __spec__, __doc__, __package__)",
    "sys": (
        "import sys; print(sys.argv, sys.path[:2], sys.flags, sys.warnoptions, sys.executable, "
        "sys.prefix, sys.orig_argv[1:])"
    ),
    "streams": (
        "import sys; print([(s.name, s.mode, s.encoding, s.errors, s.line_buffering, "
        "s.write_through, s.buffer.raw.name) for s in (sys.stdin, sys.stdout, sys.stderr)])"
    ),
    "frames": "import sys, traceback; print(sys._getframe().f_back is None)",
    "recursion": (
        "def f(n):\n  try: return f(n + 1)\n  except RecursionError: return n\nprint(f(0))"
    ),
    "deep": (
        "import sys; sys.setrecursionlimit(50000)\nf = lambda n: n and f(n - 1)\nprint(f(40000))"
    ),
    "exit with text": "import sys; sys.exit('bye')",
    "indentation": "  a = 1",
    "does not compile": "a b",
    "console": "import code; code.InteractiveConsole().runsource('a b'); print(1)",
    "finalizers": (
        "import atexit\nclass A:\n  def __del__(self): print('del', self.n)\n"
        "a = A(); a.n = 1\n_b = A(); _b.n = 2\nc = A(); c.n = 3; c.c = c\n"
        "atexit.register(print, 'atexit')"
    ),
    "a function that is kept": (  # by atexit and by the image, with all names of its module
        "import atexit, json, os, zipfile\nz = open(os.memfd_create('z'), 'wb')\n"
        "z = zipfile.ZipFile(z, 'w')\n"
        "S = []\ndef f(x='kept'): S.append(x); print(S, zipfile.ZipFile.__name__)\n"
        "class A:\n  def __del__(self): f(self.n)\na = A(); a.n = 1; b = A(); b.n = 2\n"
        "atexit.register(f); json.kept = f"
    ),
    "environment": "import os; print(sorted(os.environ.items())); os.system('env | grep -c .')",
    "signals": "import signal as s; print([(n, s.getsignal(n)) for n in s.valid_signals()])",
    "descriptors": "import os; print([n for n in os.listdir('/proc/self/fd') if int(n) < 900])",
    "warning": "import warnings; warnings.warn('x')",
    "input": "print(input())",
    "threads": "import threading as t; x = t.Thread(target=print, args=(1,)); x.start(); x.join()",
    "spawn": (
        "import multiprocessing as m\nif __name__ == '__main__':\n  c = m.get_context('spawn')\n"
        "  p = c.Process(target=print, args=(1,)); p.start(); p.join(); print(p.exitcode)"
    ),
    "no output left": "import os; os.close(1); print('x')",
    "preloaded": "import json, decimal; print(json.dumps([1]), decimal.Decimal(1) / 3)",
    "process": "print(open('/proc/self/comm').read())",
    "limits": "import resource as r; print([r.getrlimit(n) for n in range(16)])",
    "code without a file": "exec('1/0')",
    "a coroutine at the end": "async def f(): pass\nx = f()",
}
# fmt: on
"""None imports what prints addresses. Each runs in a folder of its own."""

WAYS = ("command", "file", "module", "input")


def words_for(way: str, source: str, folder: Path) -> tuple[list[str], bytes]:
    """Arguments that run a program in a certain way, and its standard input."""
    (folder / "program.py").write_text(source)
    return {
        "command": (["-c", source, "a", "-b"], b"line\n"),
        "file": (["program.py", "a"], b"line\n"),
        "module": (["-m", "program", "-q"], b"line\n"),
        "input": (["-", "a"], source.encode()),
    }[way]


def without_addresses(ended: Ended) -> Ended:
    bare = re.compile(rb"0x[0-9a-f]+")
    return Ended(ended.status, bare.sub(b"0x", ended.out), bare.sub(b"0x", ended.err))


@pytest.mark.parametrize(
    ("name", "way"),
    [*zip(PROGRAMS, itertools.cycle(WAYS)), *(("does not compile", way) for way in WAYS),
     *((name, "file") for name in ("input", "indentation", "namespace", "sys"))],
)  # fmt: skip
def test_a_program_gives_the_same_as_by_the_interpreter(
    images: Images, tmp_path: Path, name: str, way: str
) -> None:
    words, given = words_for(way, PROGRAMS[name], tmp_path)
    expected = images.python(*words, input=given, cwd=tmp_path, environ=SAID)
    started = images.served(*words, input=given, cwd=tmp_path)
    assert without_addresses(started) == without_addresses(expected)


def test_streams_that_are_closed_are_none(images: Images) -> None:
    source = "import sys, os; os.write(2, repr((sys.stdin, sys.stdout)).encode())"
    script = f'exec "$0" -c "{source}" <&- >&-'
    for program in ("python", "pasture-python"):
        path = str(BIN / program)
        ended = images.run("-c", script, path, program=Path("/bin/sh"))
        assert ended.err == b"(None, None)", program
        # Nothing can be said then.
        ended = images.run("-c", "echo begins; exec \"$0\" -c 'print(1)' 2>&-", path,
                           program=Path("/bin/sh"), environ=SAID)  # fmt: skip
        assert (ended.status, ended.out) == (0, b"begins\n1\n"), program


HANDLES = """
import signal
signal.signal(signal.SIGINT, lambda *_: print("handled"))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
BEFORE = signal.pthread_sigmask(signal.SIG_BLOCK, {10})
signal.pthread_sigmask(signal.SIG_SETMASK, BEFORE)
"""


def test_a_handler_of_a_modules_own_is_there_though_a_shell_ignores_the_signal(
    own_images: Images,
) -> None:
    own_images.module("handles", HANDLES)
    own_images.built("--preload", "handles")
    source = (
        "import handles, os, signal; os.kill(os.getpid(), signal.SIGINT)\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(13), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGPIPE)"
    )
    for number, run in ((signal.SIGPIPE, own_images.served), (signal.SIGINT, own_images.run)):
        ignore = partial(signal.signal, number, signal.SIG_IGN)
        started = run("-c", source, preexec_fn=ignore)
        assert started == own_images.python("-c", source, preexec_fn=ignore)
        assert (started.status, started.out) == (-signal.SIGPIPE, b"handled\nset() 0\n")


KEEPS = """
import sys, __main__
MAIN, ORIG = __main__, sys.orig_argv
def first(words=sys.argv): return words
sys.path.insert(0, "/vendored")
__main__.given = 1
"""
KEPT = """
import ctypes, keeps, multiprocessing, sys
mine = 5
class Dies:
    def __del__(self, print=print): print("del")
dies = Dies()
print(keeps.first(), keeps.ORIG[1:], sys.path[:3], sorted(vars(keeps.MAIN)), keeps.MAIN.mine)
number, items = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()
ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(number), ctypes.byref(items))
print(items[1:number.value], keeps.first is keeps.MAIN.keeps.first, keeps.first() is sys.argv,
      sys.modules["__mp_main__"].mine)
"""


def test_modules_that_kept_arguments_and_the_main_module_have_the_programs(
    own_images: Images, tmp_path: Path
) -> None:
    own_images.module("keeps", KEEPS)
    own_images.built("--preload", "keeps,ctypes,multiprocessing,pygments.cmdline")
    for way in WAYS:
        words, given = words_for(way, KEPT, tmp_path)
        expected = own_images.python(*words, input=given, cwd=tmp_path)
        assert b"'mine'" in expected.out and b"'/vendored'" in expected.out
        assert own_images.served(*words, input=given, cwd=tmp_path) == expected
    command = ("-m", "pygments", "-S", "default", "-f", "html")  # a default of it is sys.argv
    assert own_images.served(*command) == own_images.python(*command)


ASKS = """
import sys
FOUND = ["test" in sys.argv, "-c" in sys.argv]
"""


def test_what_a_module_has_asked_of_the_arguments_is_asked_again(own_images: Images) -> None:
    own_images.module("asks", ASKS)
    source, here = "import asks; print(asks.FOUND)", own_images.folder
    (here / "program").write_text(source)
    own_images.built("--preload", "asks")
    for word in ("test", "other"):
        words = (str(here / "program"), word)
        assert own_images.run(*words) == own_images.python(*words)
        assert "has asked for the argument" in own_images.why(*words)  # `-c`, at least
        words = ("-c", source, word)
        assert own_images.run(*words) == own_images.python(*words)
        assert (own_images.why(*words) == "") == (word != "test")


READS = {
    "a name": "import os, sys; FOUND = os.path.basename(sys.argv[0]) == 'tool'",
    "a parser": "import argparse; FOUND = argparse.ArgumentParser().prog",
    "a text": "import sys; FOUND = f'{sys.argv[0]}: '",
    "a set": "import sys; FOUND = bool({'a', 'b'} & {*sys.argv})",
    "a number": "import sys; FOUND = len(sys.argv)",
    "a second one": "import sys; FOUND = len(sys.argv) > 1 and sys.argv[1] == 'check'",
    "some": "import sys; FOUND = sys.argv[1:2] == ['migrate']",
    "each": "import sys; FOUND = all(word == 'known' for word in sys.argv)",
    "a length": "import sys; FOUND = len(sys.argv[-1])",
    "a beginning": "import sys; FOUND = any(word.startswith('-') for word in sys.argv)",
    "a part": "import sys; FOUND = 'reads' in sys.argv[-1]",
    "a part of a name": "import os, sys; FOUND = os.path.basename(sys.argv[0])[:4] == 'show'",
    "a pattern": "import re, sys; FOUND = bool(re.match('p.*m', sys.argv[0].rpartition('/')[2]))",
    "a path": "import pathlib, sys; FOUND = pathlib.Path(sys.argv[0]).name",
    "the first ones": "import sys; FOUND = sys.orig_argv[-1][:3]",
    "a change": "import sys; del sys.argv[1:]; FOUND = 1",
}


def test_a_module_that_reads_the_arguments_is_named(own_images: Images) -> None:
    for number, text in enumerate(READS.values()):
        own_images.module(f"reads{number}", text)
    names = [f"reads{number}" for number in range(len(READS))]
    own_images.built("--preload", ",".join(names), "--allow", "arguments")
    notes = own_images.document()["notes"]
    assert sorted(note["subject"] for note in notes if note["code"] == "arguments") == sorted(names)
    assert own_images.why("-c", "pass", "a") == ""


def test_modules_that_gevent_has_patched_are_served(own_images: Images) -> None:
    pytest.importorskip("gevent")
    patches = "import gevent.monkey\ngevent.monkey.patch_all()\ngevent.sleep(0)\n"
    own_images.module("patches", f"import gevent\n{patches}")
    own_images.built("--preload", "patches")
    words = ("-c", "import gevent, patches, socket; print(gevent.spawn(socket.socket).get().type)")
    assert own_images.served(*words) == own_images.python(*words)
