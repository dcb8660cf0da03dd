"""The same program gives the same by `pasture-python` as by `python`: output, errors, status."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from images import BIN, Ended, Images

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
    "exit at once": "import os; os._exit(9)",
    "interrupt": "raise KeyboardInterrupt",
    "indentation": "  a = 1",
    "hook that exits": "import sys\nsys.excepthook = lambda *a: sys.exit(5)\n1/0",
    "console": "import code; code.InteractiveConsole().runsource('a b'); print(1)",
    "finalizers": (
        "import atexit\nclass A:\n  def __del__(self): print('del', self.n)\n"
        "a = A(); a.n = 1\n_b = A(); _b.n = 2\nc = A(); c.n = 3; c.c = c\n"
        "atexit.register(print, 'atexit')"
    ),
    "environment": "import os; print(sorted(os.environ.items())); os.system('env | grep -c .')",
    "signals": "import signal as s; print([(n, s.getsignal(n)) for n in s.valid_signals()])",
    "descriptors": "import os; print([n for n in os.listdir('/proc/self/fd') if int(n) < 900])",
    "warning": "import warnings; warnings.warn('x')",
    "input": "print(input())",
    "threads": "import threading as t; x = t.Thread(target=print, args=(1,)); x.start(); x.join()",
    "late thread": (
        "import threading, time\nt = threading.Thread\n"
        "t(target=lambda: (time.sleep(.1), print(1))).start()"
    ),
    "daemon": (
        "import threading as t, time; t.Thread(target=time.sleep, args=(9,), daemon=1).start()"
    ),
    "spawn": (
        "import multiprocessing as m\nif __name__ == '__main__':\n  c = m.get_context('spawn')\n"
        "  p = c.Process(target=print, args=(1,)); p.start(); p.join(); print(p.exitcode)"
    ),
    "no output left": "import os; os.close(1); print('x')",
    "full output": "import sys, os; os.dup2(os.open('/dev/full', 1), 1); print('x')",
    "preloaded": "import json, decimal; print(json.dumps([1]), decimal.Decimal(1) / 3)",
    "process": "print(open('/proc/self/comm').read())",
    "limits": "import resource as r; print([r.getrlimit(n) for n in range(16)])",
    "code without a file": "exec('1/0')",
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_as_by_the_interpreter(
    images: Images, tmp_path: Path, name: str
) -> None:
    way = WAYS[list(PROGRAMS).index(name) % len(WAYS)]
    if name in ("input", "indentation", "namespace", "sys", "code without a file"):
        way = "file"
    words, given = words_for(way, PROGRAMS[name], tmp_path)
    expected = images.python(*words, input=given, cwd=tmp_path)
    started = images.run(*words, input=given, cwd=tmp_path)
    assert without_addresses(started) == without_addresses(expected)
    assert images.why(*words, input=given, cwd=tmp_path) == ""


def test_a_program_that_does_not_compile_ends_with_status_one_in_every_way(
    images: Images, tmp_path: Path
) -> None:
    for way in WAYS:
        words, given = words_for(way, "a b", tmp_path)
        assert images.run(*words, input=given, cwd=tmp_path).status == 1, way


def test_streams_that_are_closed_are_none(images: Images) -> None:
    source = "import sys, os; os.write(2, repr((sys.stdin, sys.stdout)).encode())"
    script = f'exec "$0" -c "{source}" <&- >&-'
    for program in ("python", "pasture-python"):
        path = str(BIN / program)
        ended = images.run("-c", script, path, program=Path("/bin/sh"))
        assert ended.err == b"(None, None)", program
        # Nothing can be said then.
        said = {"PASTURE_IMAGE_VERBOSE": "1"}
        ended = images.run("-c", "echo begins; exec \"$0\" -c 'print(1)' 2>&-", path,
                           program=Path("/bin/sh"), environ=said)  # fmt: skip
        assert (ended.status, ended.out) == (0, b"begins\n1\n"), program


def test_a_handler_for_interrupts_that_a_shell_ignores_is_not_installed(images: Images) -> None:
    source = "import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(1))"

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    started = images.run("-c", source, preexec_fn=ignore)
    assert started == images.python("-c", source, preexec_fn=ignore)
    assert b"default_int_handler" not in started.out


HANDLES = """
import signal
signal.signal(signal.SIGINT, lambda *_: print("handled"))
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
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    )

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    assert own_images.why("-c", source, preexec_fn=ignore) == ""
    started = own_images.run("-c", source, preexec_fn=ignore)
    assert started == own_images.python("-c", source, preexec_fn=ignore)
    assert started.out == b"handled\nset()\n"


KEEPS = """
import sys, __main__
MAIN, ORIG = __main__, sys.orig_argv
def first(words=sys.argv): return words
class Held: path = [*sys.path]
sys.path.insert(0, "/vendored")
__main__.given = 1
"""
KEPT = """
import ctypes, keeps, multiprocessing, sys
mine = 5
class Dies:
    def __del__(self, print=print): print("del")
dies = Dies()
print(keeps.first(), keeps.ORIG[1:], sys.path[:3], sorted(vars(keeps.MAIN)), keeps.MAIN.mine,
      keeps.Held.path)
number, items = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()
ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(number), ctypes.byref(items))
print(items[1:number.value], keeps.first is keeps.MAIN.keeps.first, keeps.first() is sys.argv,
      sys.modules["__mp_main__"].mine)
"""


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("keeping"))
    found.module("keeps", KEEPS)
    found.built("--preload", "keeps,ctypes,multiprocessing,pygments.cmdline")
    return found


@pytest.mark.parametrize("way", WAYS)
def test_modules_that_kept_arguments_the_search_path_and_the_main_module_have_the_programs(
    keeping: Images, tmp_path: Path, way: str
) -> None:
    words, given = words_for(way, KEPT, tmp_path)
    expected = keeping.python(*words, input=given, cwd=tmp_path)
    assert b"'mine'" in expected.out and b"'/vendored'" in expected.out
    assert keeping.run(*words, input=given, cwd=tmp_path) == expected
    assert keeping.why(*words, input=given, cwd=tmp_path) == ""


def test_a_command_whose_default_is_sys_argv_has_the_programs(keeping: Images) -> None:
    words = ("-m", "pygments", "-S", "default", "-f", "html")
    assert keeping.run(*words) == keeping.python(*words)
    assert keeping.why(*words) == ""


@pytest.mark.parametrize("change", ["sys.argv = sys.argv[:1]", "sys.argv.append('more')"])
def test_a_module_that_changes_the_arguments_is_refused(own_images: Images, change: str) -> None:
    own_images.module("changes", f"import sys; {change}\n")
    done = own_images.build("--preload", "changes")
    assert done.returncode != 0
    assert "a preloaded module changes sys.argv while it is loaded" in done.stderr


ASKS = """
import os, sys
A = "test" in sys.argv
B = len(sys.argv) > 1 and sys.argv[1] == "check"
C = sys.argv[1:2] == ["migrate"]
D = any(word == "--debug" for word in sys.argv)
E = os.path.basename(sys.argv[0]) == "tool"
FOUND = [A, B, C, D, E]
"""
ASK_MORE = (
    "len(sys.argv) > 1 and sys.argv[1].startswith('-')",
    "all(word == 'known' for word in sys.argv[1:])",
    "any(word != 'known' for word in sys.argv[1:])",
    "'-c' in sys.argv[1:]",
)
ASKED = ("test", "check", "migrate", "--debug")


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("asking"))
    found.module("asks", ASKS)
    found.module("show", "import asks; print(asks.FOUND)")
    for name in ("tool", "program"):
        (found.folder / name).write_text("import asks; print(asks.FOUND)")
    found.built("--preload", "asks")
    return found


@pytest.mark.parametrize("word", [*ASKED, "tool", "other", ""])
def test_what_a_module_has_asked_of_the_arguments_is_asked_again(asking: Images, word: str) -> None:
    program = str(asking.folder / ("tool" if word == "tool" else "program"))
    words = (program, word) if word else ("-m", "show")
    assert asking.run(*words) == asking.python(*words)
    said = asking.why(*words)
    assert said == "" if word in ("other", "") else "has asked for the argument" in said


@pytest.mark.parametrize("asks", ASK_MORE)
def test_what_a_module_asks_of_arguments_has_the_programs_answer(
    own_images: Images, asks: str
) -> None:
    own_images.module("asks", f"import sys; FOUND = {asks}")
    own_images.built("--preload", "asks")
    program = ("-c", "import asks; print(asks.FOUND)")
    assert own_images.why(*program) == ""
    for words in ((), ("-v",), ("known",), ("new", "-c")):
        assert own_images.run(*program, *words) == own_images.python(*program, *words), words


READS = {
    "a parser": "import argparse; FOUND = argparse.ArgumentParser().prog",
    "a text": "import sys; FOUND = f'{sys.argv[0]}: '",
    "a set": "import sys; FOUND = bool({'a', 'b'} & {*sys.argv})",
    "a number": "import sys; FOUND = len(sys.argv)",
    "a length": "import sys; FOUND = len(sys.argv[-1])",
    "a beginning": "import sys; FOUND = any(word.startswith('-') for word in sys.argv)",
    "a part": "import sys; FOUND = 'reads' in sys.argv[-1]",
    "a part of a name": "import os, sys; FOUND = os.path.basename(sys.argv[0])[:4] == 'show'",
    "a pattern": "import re, sys; FOUND = bool(re.match('p.*m', sys.argv[0].rpartition('/')[2]))",
    "a path": "import pathlib, sys; FOUND = pathlib.Path(sys.argv[0]).name",
    "the first ones": "import sys; FOUND = sys.orig_argv[-1][:3]",
    "a change": "import sys; del sys.argv[1:]; FOUND = 1",
}


def test_a_module_that_reads_the_arguments_is_for_programs_without(own_images: Images) -> None:
    for number, text in enumerate(READS.values()):
        own_images.module(f"reads{number}", text)
    own_images.module("show", "import sys; print(__import__(sys.argv[1]).FOUND)")
    names = [f"reads{number}" for number in range(len(READS))]
    own_images.built("--preload", ",".join(names))
    notes = own_images.document()["notes"]
    assert sorted(note["subject"] for note in notes if note["code"] == "arguments") == sorted(names)
    assert own_images.why("-c", "pass") == ""
    for name in names:
        assert own_images.run("-m", "show", name) == own_images.python("-m", "show", name)
        assert "has read the arguments while it was loaded" in own_images.why("-m", "show", name)


def test_modules_that_gevent_has_patched_are_served(own_images: Images) -> None:
    pytest.importorskip("gevent")
    patches = "import gevent.monkey\ngevent.monkey.patch_all()\ngevent.sleep(0)\n"
    own_images.module("patches", f"import gevent\n{patches}")
    own_images.built("--preload", "patches")
    words = ("-c", "import gevent, patches, socket; print(gevent.spawn(socket.socket).get().type)")
    assert own_images.run(*words) == own_images.python(*words)
    assert own_images.why(*words) == ""
