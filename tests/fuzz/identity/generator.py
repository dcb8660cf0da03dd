"""Makes a program of a number: the same on each call, in the same surroundings.

A program is lines of the zoo (`pieces`) at the level of its module, in `main()`, and in children,
which it forks by itself, by `multiprocessing`, `concurrent.futures` or `subprocess`.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pieces import CHILD_ENDS, ENDS, NEEDS, STATES, TAKEN

PRELUDE = '''\
import builtins, os, sys
from os import O_APPEND, O_CREAT, O_WRONLY, close, open as open_file, write
NOTES = {notes!r}
ROLE = "main" if __name__ == "__main__" else __name__
COUNTS = {{}}

def note(what, take):
    """Write down what is taken, or what it raises, and who did."""
    number = COUNTS[ROLE, what] = COUNTS.get((ROLE, what), 0) + 1
    try:
        value = repr(take())
    except Exception as error:
        value = f"{{type(error).__name__}}: {{error}}"
    file = open_file(NOTES, O_WRONLY | O_APPEND | O_CREAT, 0o600)
    write(file, f"{{(ROLE, number, what, value)!r}}\\n".encode())
    close(file)

def fork_and_wait(name, body, end):
    global ROLE
    pid = os.fork()
    if not pid:
        ROLE += " > " + name
        body()
        end()
        return
    note("child", lambda: pid)
    note("status", lambda: os.waitpid(pid, 0)[1])

def in_role(name, body, end, number=0):
    """What a process of multiprocessing runs."""
    global ROLE
    ROLE += f" > {{name}} {{number}}"
    body()
    end()
    return os.getpid()

def fork_both(name, body, end):
    """Two at a time."""
    global ROLE
    pids = []
    for number in range(2):
        pids.append(os.fork())
        if not pids[-1]:
            ROLE += f" > {{name}}, {{number}}"
            body()
            end()
            return
    note("children", lambda: pids)
    note("statuses", lambda: [os.waitpid(pid, 0)[1] for pid in pids])

def on_signal(number, frame):
    note(f"signal {{number}}", os.getpid)

def gc_garbage():
    import gc
    return gc.garbage

def descriptors():
    """How many there are below 60, without what pasture counts in."""
    found = 0
    for number in range(60):
        try:
            if "/memfd:pasture" not in os.readlink(f"/proc/self/fd/{{number}}"):
                found += 1
        except OSError:
            pass
    return found

class Plain:
    pass

class End(Plain):
    def __del__(self):
        note("deleted", os.getpid)

class Held(Plain):
    """Of another module's names."""
    def __del__(self):
        note("held", os.getpid)

SUBJECT_ZERO = [1, (2, {{"three": 3}})]
'''

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
    *(
        ("PYTHONOPTIMIZE", "1"),
        ("FORCE_COLOR", "1"),
        ("COLUMNS", "40"),
        ("PYTHONFAULTHANDLER", "1"),
    ),
    *(("PYTHONTRACEMALLOC", "1"), ("PYTHONMALLOC", "malloc"), ("PYTHONSAFEPATH", "1")),
)
ARGUMENTS = ("a", "", "-x", "--long=1", "ä", "with space", "-", "--", "*", "'\"", "\n", "-c")
WAYS = ("file", "file", "file", "dotted", "absolute", "module", "command", "joined", "input")


@dataclass(frozen=True)
class Program:
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
    stdout: str

    def words(self, folder: Path) -> list[str]:
        """Arguments of the interpreter, after its options."""
        named = {
            "command": ["-c", self.source],
            "joined": [f"-c{self.source}"],
            "file": ["program.py"],
            "dotted": ["./program.py"],
            "absolute": [str(folder / "program.py")],
            "module": ["-m", "program"],
            "input": ["-"],
        }[self.way]
        return [*named, *self.arguments]


class Maker:
    """Draws the lines of one program."""

    def __init__(self, chance: random.Random, is_file: bool) -> None:
        self.chance = chance
        # Another way of multiprocessing imports the main module again, and waits for ever if it
        # cannot.
        self.methods = ("fork", "fork", "forkserver", "spawn") if is_file else ("fork",)
        self.bound: list[str] = []
        self.children: list[str] = []

    def line(self) -> str:
        """A state, or what something is asked for."""
        known = [name for name in self.bound if name in NEEDS]
        draw = self.chance.random()
        if draw < 0.4:
            state = self.chance.choice(STATES)
            found = re.findall(r"\b([A-Z]+)(?:, ([A-Z]))? = ", state)
            self.bound += [name for names in found for name in names if name]
            return state
        if draw < 0.6 and known:
            asked = NEEDS[self.chance.choice(known)]
        else:
            asked = self.chance.choice(TAKEN)
        return f"note({asked!r}, lambda: {asked})"

    def child(self, depth: int) -> str:
        """Lines that start a child, and have it end."""
        number = len(self.children)
        name = f"child {number}"
        self.children.append("")
        body = [self.line() for _ in range(self.chance.randint(1, 4))]
        if depth < 2 and self.chance.random() < 0.2:
            body.append(self.child(depth + 1))
        parts = [
            f"def body_{number}():",
            *indented(exported(body)),
            f"def end_{number}():",
            *indented([self.chance.choice(CHILD_ENDS)]),
        ]
        self.children[number] = "\n".join(parts)
        return self.start(name, f"{name!r}, body_{number}, end_{number}")

    def start(self, name: str, words: str) -> str:
        method = self.chance.choice(self.methods)
        context = f"multiprocessing.get_context({method!r})"
        return self.chance.choice(
            (
                f"fork_and_wait({words})",
                f"fork_and_wait({words})",
                f"fork_both({words})",
                f"import threading; t = threading.Thread(target=fork_and_wait, args=({words})); "
                "t.start(); t.join()",
                f"import multiprocessing\np = {context}.Process(target=in_role, args=({words}))\n"
                f"p.start(); p.join(); note('exit', lambda: (p.exitcode, p.name))",
                f"import multiprocessing\nwith {context}.Pool(1) as pool:\n"
                f"    note('pool', lambda: pool.starmap(in_role, [({words.rsplit(', ', 1)[0]}, "
                "print)]))\n    pool.close(); pool.join()",
                f"import multiprocessing, concurrent.futures\n"
                f"with concurrent.futures.ProcessPoolExecutor(1, {context}) as pool:\n"
                f"    note('future', lambda: pool.submit(in_role, {words}).result())",
                "import subprocess; note('run', lambda: subprocess.run([sys.executable, '-c', "
                "'import os, sys; print(os.getcwd(), sys.argv, os.umask(0), os.nice(0))', 'a'], "
                "capture_output=True))",
            )
        )


def exported(lines: list[str]) -> list[str]:
    """Lines of a function that bind names of the module, as they would there."""
    names = sorted(
        {name for line in lines for name in re.findall(r"\b([A-Z]+)\b(?:, [A-Z])? = ", line)}
    )
    names += ["W", "B"] if any("R, W =" in line or "A, B =" in line for line in lines) else []
    return [*([f"global {', '.join(dict.fromkeys(names))}"] if names else []), *lines]


def indented(lines: list[str]) -> Iterator[str]:
    for line in "\n".join(lines or ["pass"]).splitlines():
        yield f"    {line}"


def source_of(chance: random.Random, folder: Path, is_file: bool) -> str:
    """The text of a program that writes its notes to the folder."""
    maker = Maker(chance, is_file)
    top = [maker.line() for _ in range(chance.randint(0, 4))]
    inner = [maker.line() for _ in range(chance.randint(0, 3))]
    for _ in range(chance.choice((0, 1, 1, 2))):
        inner += [maker.child(0), *(maker.line() for _ in range(chance.randint(0, 2)))]
    end = chance.choice(ENDS)
    return "\n".join(
        [
            PRELUDE.format(notes=str(folder / "notes")),
            *maker.children,
            *top,
            "def main():",
            *indented(exported(inner)),
            "if __name__ == '__main__':",
            "    main()",
            *indented([end] if end else []),
            "",
        ]
    )


def program(number: int, folder: Path) -> Program:
    """The program of a number."""
    chance = random.Random(number)
    way = chance.choice(WAYS)
    source = source_of(chance, folder, way not in ("command", "joined", "input"))
    return Program(
        number,
        source,
        way,
        chance.choice(OPTIONS),
        tuple(chance.choices(ARGUMENTS, k=chance.choice((0, 0, 1, 2, 3)))),
        dict(chance.sample(VARIABLES, chance.choice((0, 0, 0, 0, 1, 2)))),
        source.encode() if way == "input" else chance.choice((b"", b"line\n", b"a\nb", b"\xff\n")),
        chance.choice((0o22, 0o22, 0o77, 0)),
        chance.choice((0, 0, 0, 1)),
        tuple(
            chance.sample((signal.SIGINT, signal.SIGHUP, signal.SIGUSR1), chance.choice((0, 0, 1)))
        ),
        tuple(chance.sample((signal.SIGUSR1, signal.SIGALRM), chance.choice((0, 0, 0, 1)))),
        tuple(chance.sample((0, 1, 2), 1)) if chance.random() < 0.05 else (),
        tuple(chance.sample(range(3, 50), chance.choice((0, 0, 0, 1, 3)))),
        chance.choice(("file", "file", "pipe")),
    )
