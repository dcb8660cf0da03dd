"""Every command with every option: what it says and leaves where it cannot do its work.

The cases are made of the tree of commands, so that a new option has them, too. Each runs in a fork
of this process. How INT and TERM end it is in test_interrupts.py.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from pasture import errors
from pasture_tools.cli.main import INTERRUPTED, cli, run

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

LIMIT_S = 300
STARTED = 77  # exit status where a command would have become another program
DEFECT = 70
FILES = {
    "empty": "",
    "nonsense": "\0\1 no such line\n",
    "list.json": "[1]",
}
KEPT = {*FILES, "unreadable"}
NEEDED = {
    "try": ("--policy", "nothing", "nothing:app"),
    "run": ("gunicorn", "nothing:app"),
    "explain": ("999999999",),
    "doctor": ("999999999",),
    "metrics": ("999999999",),
    "top": ("999999999",),
    "image build": ("--mode", "7"),
    "image show": ("empty",),
    "lab": ("nothing",),
}
"""Words after the options, with which a command ends by an error at the latest then."""
PRINTING = (
    ("--help",),
    ("--version",),
    ("size", "--private", "40M"),
    ("size", "--private", "40M", "--json", "-"),
    ("lab",),
    ("top", "--once", "--interval", "0.1", "PID"),
    ("top", "--once", "--interval", "0.1", "--json", "-", "PID"),
)
"""Commands that end well."""


def documented() -> set[int]:
    kinds, codes = [errors.PastureError], {INTERRUPTED}
    while kinds:
        kind = kinds.pop()
        codes.add(kind.exit_code)
        kinds += kind.__subclasses__()
    return codes


def tree(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from tree(command_at((*path, name)), (*path, name))


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = cli
    for name in path:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None
        found = below
    return found


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What commands import is imported once, and not by each fork."""
    for name in (
        *("numpy", "jinja2"),
        *("pasture_tools.explain.explain", "pasture_tools.explain.html"),
        *("pasture_image.build.making", "pasture_lab.lab"),
    ):
        importlib.import_module(name)


COMMANDS = {" ".join(path) or "pasture": path for path in tree()}


def options_of(path: tuple[str, ...]) -> list[click.Option]:
    return [one for one in command_at(path).params if isinstance(one, click.Option)]


@dataclass
class Ended:
    words: tuple[str, ...]
    code: int
    out: str
    err: str
    left: list[str]

    def wrong(self, code: int | None = None) -> str | None:
        """Why this is no answer to a mistake; None if it is one."""
        if self.code not in documented() or (code is not None and self.code != code):
            return f"status {self.code}"
        lines = [line.partition(":")[0] for line in self.err.splitlines() if line[:1] != " "]
        if lines.count("error") != 1 or lines.count("hint") != 1 or lines[-1] != "hint":
            return "no sentence with a hint"
        if "Traceback" in self.err or not self.err.replace("\n", "").isprintable():
            return "a traceback, or what a terminal would obey"
        return f"leaves {self.left}" if self.left else None

    def __str__(self) -> str:
        return f"$ pasture {' '.join(map(ascii, self.words))}\n{self.code}\n{self.out}{self.err}"


@pytest.fixture
def carry_out(tmp_path: Path) -> Callable[..., Ended]:
    return lambda *words, **named: ended(tmp_path, words, **named)


def ended(
    folder: Path,
    words: tuple[str, ...],
    *,
    output: Callable[[], int | None] | None = None,
    environ: dict[str, str] | None = None,
    is_root: bool = True,
) -> Ended:
    """A command line, run in a fork of this process."""
    place, temporary, said = folder / "place", folder / "tmp", (folder / "out", folder / "err")
    for one in (place, temporary):
        one.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (place / name).write_text(text)
    (place / "unreadable").touch(0o000)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = DEFECT
        try:
            signal.alarm(LIMIT_S)
            os.chdir(place)
            null = os.open(os.devnull, os.O_RDONLY)
            out, err = (os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) for file in said)
            out = out if output is None else output()
            for number, target in enumerate((null, out, err)):
                os.close(number) if target is None else os.dup2(target, number)
            sys.stdin, sys.stderr = open(0), open(2, "w", errors="backslashreplace")
            sys.stdout = None if out is None else open(1, "w")
            home = {"HOME": str(place), "XDG_CACHE_HOME": str(folder / "cache")}
            own = {"TMPDIR": str(temporary), "TERM": "dumb"}
            os.environ.update(home | own | (environ or {}))
            os.execve = lambda *_: os._exit(STARTED)  # type: ignore[assignment]
            if not is_root:
                give_up_privileges()
            code = run([word.replace("PID", str(os.getppid())) for word in words])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else DEFECT
        except BaseException:
            traceback.print_exc()
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    found = [one for one in (*place.iterdir(), *temporary.iterdir()) if one.name not in KEPT]
    for one in found:
        one.unlink()
    left = [one.name for one in found]
    out, err = (file.read_text(errors="backslashreplace") for file in said)
    return Ended(words, os.waitstatus_to_exitcode(status), out, err, left)


def give_up_privileges() -> None:
    """Root is then a user like others: a file without permission cannot be read."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0


def needed(name: str) -> tuple[str, ...]:
    return NEEDED.get(name, ())


@pytest.mark.parametrize("name", COMMANDS)
def test_mistyped_words(name: str, carry_out: Callable[..., Ended]) -> None:
    """An option without its value, with one that it does not take, and one by another name."""
    path = COMMANDS[name]
    cases, near = [carry_out(*path, "--graze")], []
    for option in options_of(path):
        long = max(option.opts, key=len)
        cases.append(carry_out(*path, f"{long}=x" if option.is_flag else long))
        near.append((long, carry_out(*path, f"{long}x")))
    for below in (one[-1] for one in COMMANDS.values() if one and one[:-1] == path):
        near.append((below, carry_out(*path, f"{below}x")))
    cases += [case for _, case in near]
    assert [f"{why}: {case}" for case in cases if (why := case.wrong(2))] == []
    assert [str(case) for word, case in near if f"{word}?" not in case.err] == []


WORDS = ("x", "-1", "\udcff\x1b[31m", "x" * 5000, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_values_of_the_wrong_kind(name: str, carry_out: Callable[..., Ended]) -> None:
    """A value that may be right is no mistake: then the command ends well, or would start."""
    cases = [
        (option, carry_out(*COMMANDS[name], f"{max(option.opts, key=len)}={word}", *needed(name)))
        for option in options_of(COMMANDS[name])
        for word in WORDS
        if not option.is_flag
    ]
    numbers = click.types.FloatParamType | click.types.IntParamType
    wrong = [f"{why}: {case}" for option, case in cases if (why := case.wrong())
             and (case.code not in (0, STARTED) or isinstance(option.type, numbers))]  # fmt: skip
    assert not wrong, "\n".join(wrong)


NO_FILES = (
    *("missing", "unreadable", ".", "empty", "nonsense", "list.json"),
    *("/sys/x", "missing/x", "/dev/full", "/dev/zero"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_are_none(name: str, carry_out: Callable[..., Ended]) -> None:
    """No file, a folder, one without sense, one without permission, a device without an end."""
    cases = [
        carry_out(*COMMANDS[name], max(option.opts, key=len), file, *needed(name), is_root=False)
        for option in options_of(COMMANDS[name])
        for file in NO_FILES
        if isinstance(option.type, click.Path)
    ]
    wrong = [f"{why}: {case}" for case in cases if (why := case.wrong())
             and case.code not in (0, STARTED)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_output_that_is_not_taken(words: tuple[str, ...], carry_out: Callable[..., Ended]) -> None:
    done = carry_out(*words)
    assert (done.code, done.left) == (0, []), done
    assert "-" not in words or json.loads(done.out)
    full = carry_out(*words, output=lambda: os.open("/dev/full", os.O_WRONLY))
    assert full.wrong(2) is None, f"{full.wrong(2)} {full}"

    def gone() -> int:
        reader, writer = os.pipe()
        os.close(reader)
        return writer

    for output, code in ((gone, 1), (lambda: None, 0)):
        case = carry_out(*words, output=output)
        assert (case.code, "error" in case.err, "Traceback" in case.err) == (code, False, False), (
            case
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_narrow_terminal(name: str, carry_out: Callable[..., Ended]) -> None:
    """click takes no terminal to be narrower than 50."""
    done = carry_out(*COMMANDS[name], "--help", environ={"COLUMNS": "40"})
    assert (done.code, done.err, done.left) == (0, "", []), done
    text = done.out.partition("\nPolicies:")[0] if name == "try" else done.out
    assert [line for line in text.splitlines() if len(line) > 50 and line[:4].strip()] == []
