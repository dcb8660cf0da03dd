"""Random requests, by `pasture-python` and by `python`: status, output and errors must be the same.

`python tests/image/random_requests.py --requests 10000`: goes on where it stopped. A request is
made from its number alone, so that one that differs can be looked at again (`--only NUMBER`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from images import BIN, STUB, Images

STATES = Path(__file__).resolve().parent.parent.parent / "var"
TIMEOUT_S = 120

PARTS = (
    "import sys; print(sys.argv, sys.path[0], sys.flags.utf8_mode, sys.warnoptions, sys._xoptions)",
    "import os; print(sorted(os.environ.items()))",
    "import os; print(os.getcwd(), os.umask(0o22), os.nice(0))",
    "import os; print([n for n in sorted(map(int, os.listdir('/proc/self/fd'))) if n < 60])",
    "import signal as s; print([n for n in range(1, 32) if s.getsignal(n) == s.SIG_IGN])",
    "import signal as s; print(sorted(s.pthread_sigmask(0, [])))",
    "import sys; print([s and (s.encoding, s.errors, s.line_buffering) for s in "
    "(sys.stdin, sys.stdout, sys.stderr)])",
    "import sys; print(repr(sys.stdin.read(20) if sys.stdin else None))",
    "import json, decimal; print(json.dumps({'a': 1}), decimal.Decimal('1') / 7)",
    "import time; print(time.tzname, time.localtime(86400 * 200).tm_hour)",
    "import locale; print(locale.setlocale(locale.LC_ALL), locale.getencoding())",
    "import warnings; warnings.warn('w', DeprecationWarning); warnings.warn('u')",
    "import atexit; atexit.register(print, 'at the end')",
    "class A:\n    def __del__(self): print('deleted')\na = A(); a.self = a",
    "import threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()",
    "import os\nif not os.fork(): os._exit(7)\nprint(os.wait()[1])",
    "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1)']).returncode)",
    "import sys; print('to stderr', file=sys.stderr)",
    "import gc; print(gc.isenabled(), gc.collect() >= 0)",
    "import __main__; print(sorted(k for k in vars(__main__) if k[:2] == '__'))",
    "import os; print(os.isatty(0), os.getppid() == os.getsid(0))",
    "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))",
    "try: input()\nexcept (EOFError, RuntimeError) as e: print(type(e))",
    "def f(n): return n and f(n - 1)\nprint(f(300))",
)
ENDS = (
    *("", "", "", "1/0", "raise SystemExit", "raise SystemExit(3)", "import sys; sys.exit('text')"),
    *("raise SystemExit(-1)", "raise KeyboardInterrupt", "import os; os._exit(4)", "a b", "  x"),
    *("import os; os.abort()", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    *("raise SystemExit([1])", "assert False", "import nowhere", "lambda: (yield)", "x = 1; del x"),
    *("import sys; sys.stdout.close()", "import os; os.close(1); print(2)", "open('/nowhere')"),
)
OPTIONS: tuple[tuple[str, ...], ...] = (
    *((),) * 40,
    *(("-u",), ("-B",), ("-E",), ("-I",), ("-X", "utf8"), ("-W", "error"), ("-bb",), ("-O",)),
    *(("-q",), ("-s",), ("-P",), ("-X", "dev")),
)
VARIABLES: tuple[tuple[str, str], ...] = (
    *(("A", "1"), ("EMPTY", ""), ("ÄÖ", "ü"), ("TZ", "Asia/Tokyo"), ("TZ", "UTC"), ("HOME", "/x")),
    *(("PYTHONUNBUFFERED", "1"), ("PYTHONHASHSEED", "0"), ("PYTHONPATH", "/x"), ("LC_ALL", "C")),
    *(("PYTHONWARNINGS", "error"), ("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1")),
    *(("PYTHONIOENCODING", "latin-1"), ("LANG", "C.UTF-8"), ("NO_COLOR", "1"), ("TERM", "dumb")),
    *(("PYTHONOPTIMIZE", "1"), ("FORCE_COLOR", "1"), ("COLUMNS", "40"), ("PASTURE_IMAGE", "0")),
)
ARGUMENTS = ("a", "", "-x", "--long=1", "ä", "with space", "-", "--", "*", "'\"", "\n", "-c")


@dataclass
class Request:
    """What is run, and in which surroundings."""

    number: int
    source: str
    way: str
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: dict[str, str]
    input: bytes
    umask: int
    nice: int
    ignored: tuple[int, ...]
    blocked: tuple[int, ...]
    closed: tuple[int, ...]
    opened: tuple[int, ...]
    differs: str = field(default="")

    def words(self, folder: Path) -> list[str]:
        """Arguments of the interpreter."""
        (folder / "program.py").write_text(self.source, "utf-8")
        named = {
            "command": ["-c", self.source],
            "joined": [f"-c{self.source}"],
            "file": ["program.py"],
            "dotted": ["./program.py"],
            "absolute": [str(folder / "program.py")],
            "module": ["-m", "program"],
            "input": ["-"],
        }[self.way]
        return [*self.options, *named, *self.arguments]


def request(number: int) -> Request:
    """The request of a number: the same on each call."""
    chance = random.Random(number)
    some = chance.sample(PARTS, chance.randint(0, 4))
    ways = ("command", "joined", "file", "dotted", "absolute", "module", "input")
    way = chance.choice(ways)
    source = "\n".join([*some, chance.choice(ENDS)]) or "pass"
    return Request(
        number,
        source,
        way,
        chance.choice(OPTIONS),
        tuple(chance.choices(ARGUMENTS, k=chance.randint(0, 3))),
        dict(chance.sample(VARIABLES, chance.choice((0, 0, 0, 0, 1, 2)))),
        source.encode() if way == "input" else chance.choice((b"", b"line\n", b"a\nb", b"\xff\n")),
        chance.choice((0o22, 0o77, 0)),
        chance.choice((0, 0, 1)),
        tuple(chance.sample((signal.SIGINT, signal.SIGHUP, signal.SIGUSR1), chance.choice((0, 1)))),
        tuple(chance.sample((signal.SIGUSR1, signal.SIGALRM), chance.choice((0, 0, 1)))),
        tuple(chance.sample((0, 1, 2), 1)) if chance.random() < 0.1 else (),
        tuple(chance.sample(range(3, 50), chance.randint(0, 3))),
    )


def surroundings(one: Request, folder: Path) -> Callable[[], None]:
    """What the child does before it executes the interpreter."""

    def set_up() -> None:
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

    return set_up


def outcome(program: Path, one: Request, environ: dict[str, str]) -> tuple[int, bytes, bytes]:
    """How a request ends, without what differs from run to run."""
    with tempfile.TemporaryDirectory(prefix="request-") as name:
        folder = Path(name)
        done = subprocess.run(
            [program, *one.words(folder)],
            env={**environ, **one.variables},
            input=one.input,
            capture_output=True,
            preexec_fn=surroundings(one, folder),
            close_fds=False,
            timeout=TIMEOUT_S,
            check=False,
        )
        bare = [without_run(text, name) for text in (done.stdout, done.stderr)]
        return done.returncode, bare[0], bare[1]


def without_run(text: bytes, folder: str) -> bytes:
    """Output without addresses and the folder, and without what docs/image.md says of the end: a
    traceback out of a finalizer may show its source line."""
    text = re.sub(rb"0x[0-9a-f]+", b"0x", text.replace(folder.encode(), b"FOLDER"))
    return re.sub(rb"(, in __del__\n)    .*\n(?:    [ ~^]+\n)?", rb"\1", text)


def compare(images: Images, number: int) -> Request:
    """Run a request both ways."""
    one = request(number)
    started = outcome(STUB, one, images.environ)
    expected = outcome(BIN / "python", one, images.environ)
    if started != expected:
        one.differs = f"started {started}\nexpected {expected}"
    return one


@contextmanager
def from_file() -> Iterator[Images]:
    """An image that programs are started out of."""
    with tempfile.TemporaryDirectory(prefix="images-") as name:
        images = Images(Path(name))
        images.built("--preload", "json,decimal")
        images.environ["PASTURE_IMAGE"] = str(images.image)
        yield images


def main() -> int:
    """Compare many, and keep how far it has come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    kept = STATES / "image-requests.json"
    state = {"next": 0, "differ": []}
    if kept.exists() and asked.only is None:
        state = json.loads(kept.read_text())
    with from_file() as found:
        begin = state["next"] if asked.only is None else asked.only
        end = asked.requests if asked.only is None else asked.only + 1
        for number in range(begin, end):
            one = compare(found, number)
            if one.differs:
                state["differ"].append(number)
                print(f"request {number} differs: {one}\n{one.differs}", flush=True)
            state["next"] = number + 1
            if asked.only is None and number % 10 == 9:
                kept.parent.mkdir(exist_ok=True)
                kept.write_text(json.dumps(state))
    print(f"{state['next']} requests, {len(state['differ'])} differ")
    return bool(state["differ"])


if __name__ == "__main__":
    sys.exit(main())
