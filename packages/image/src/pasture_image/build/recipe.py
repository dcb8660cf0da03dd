"""Recipes: files with options of `pasture image build`, and the one that a run of a program gives.

Owns their form, an option a line as on a command line, `#` before comments; and which modules of a
program a recipe names: those that it imported before anything else had changed what they could see,
and that can be imported by themselves. What the program did before its imports is in comments.
"""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pasture.errors import ImageFailed, UsageError
from pasture.trust import foreign_files
from pasture_image.build.interpreter import python

_TIMEOUT_S = 300.0
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_COMMAND = ("-o", "--output", "-h", "--help")
_WATCH = """\
import atexit, os, sys
del os.environ["PYTHONPATH"]; os.environ.update({own!r})
sys.path[:] = [one for one in sys.path if one != os.path.dirname(__file__)]
_own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = _own
_pid, _file, _started, _early, _set = os.getpid(), {file!r}, dict(), [], []
def _names():
    return [*dict.fromkeys(one for one in (*_started, *sys.modules) if type(one) is str)]
def _hear(event, args):
    if event == "import":
        _started[args[0]] = None
    elif event in ("os.putenv", "os.unsetenv", "os.chdir"):
        frame = sys._getframe(1)
        while frame and frame.f_globals.get("__name__") in ("os", "_collections_abc"):
            frame = frame.f_back
        if frame and frame.f_globals.get("__name__") == "__main__":
            what = args[0]  # chdir takes descriptors, too
            _set.append((event, what if type(what) is int else os.fsdecode(what)))
            _early or _early.extend(_names())
def _write():
    if os.getpid() == _pid:
        with open(_file, "w") as file:
            file.write(ascii((_early or _names(), _set)))
sys.addaudithook(_hear)
atexit.register(_write)
"""
"""Modules in the order in which imports began, and then those that `importlib` was asked for. It
imports nothing that the program may not."""
_TRY = """\
import sys, os
sys.path[:] = [one for one in sys.path if one]
found = []
for name in sys.stdin.read().split():
    try:
        if name not in sys.modules and name not in sys.builtin_module_names:
            __import__(name)
            sys.modules[name]
            found.append(name)
    except (Exception, SystemExit):
        pass
os.write(2, ("\\n" + " ".join(found) + "\\n").encode())
os._exit(0)
"""


def words(path: Path) -> list[str]:
    """The words of a recipe.

    Raises:
        UsageError: it cannot be read, or its quotes do not match.
    """
    data = foreign_files.read_foreign(path.resolve(), most_bytes=1 << 20, owners=None)
    try:
        found = shlex.split(data.decode("utf-8-sig", "replace"), comments=True)
    except ValueError as error:
        raise UsageError(f"{path} makes no sense: {error}") from None
    for word in found:
        if word.startswith(_OF_COMMAND) or "\0" in word:
            hint = "a recipe has options of `pasture image build`, but for these"
            raise UsageError(f"{path} has {word!r}", hint=hint)
    return found


def watched(command: Sequence[str], output: int | None) -> str:
    """The recipe that one run of a program gives, which ends as it would by itself.

    Args:
        command: as it is started: `python app.py`, or a script.
        output: descriptor of its standard output; None for that of this process.

    Raises:
        ImageFailed: nothing of it was seen.
    """
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder, "seen")
        own = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        (Path(folder) / "sitecustomize.py").write_text(_WATCH.format(file=str(seen), own=own))
        path = os.pathsep.join((folder, *filter(None, own.values())))
        try:
            status = _run(command, {**os.environ, "PYTHONPATH": path}, output)
        except OSError as error:
            raise ImageFailed(f"{command[0]} cannot be started: {error.strerror}") from None
        if not seen.exists():
            raise ImageFailed(
                f"nothing was seen of {command[0]}, which ended with status {status}",
                hint="give the command of a Python program that ends by itself or by Ctrl-C, not by"
                " os._exit(), and reads its start files (no -E, -I, -S)",
            )
        return _text(command, status, *ast.literal_eval(seen.read_text()))


def _run(command: Sequence[str], environ: Mapping[str, str], output: int | None) -> int:
    """The status of a program that gets the signals that would end this process."""
    with subprocess.Popen(command, env=environ, stdout=output) as process:

        def pass_on(number: int, _: object) -> None:
            if number != signal.SIGINT:  # the terminal has sent it to both
                process.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in _ENDS}
        try:
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _text(
    command: Sequence[str], status: int, names: list[str], changes: list[tuple[str, str]]
) -> str:
    lines = ["# the recipe of: " + shlex.join(command).replace("\n", "\\n")]
    lines += [f"# it ended with status {status}"] if status else []
    for event, what in changes:
        what = f"os.environ[{what!r}]" if "env" in event else f"os.chdir({what!r})"
        lines.append(f"# it changes {what}: modules that it imports after that are left out")
    loadable = _loadable(
        name for name in names
        if name.replace(".", "").isidentifier() and not name.startswith(("_", "pasture"))
    )  # fmt: skip
    if not loadable:
        first = lines[-1].removeprefix("# ") if changes else "build no image"
        raise ImageFailed("the program imports nothing that can be kept", hint=first)
    return "\n".join((*lines, *(f"--preload {name}" for name in loadable), ""))


def _loadable(names: Iterable[str]) -> list[str]:
    """Those that can be imported by themselves, and no other one imports; tried in a process."""
    try:
        done = subprocess.run(
            [python(), "-c", _TRY], input="\n".join(names), capture_output=True, text=True,
            cwd="/", timeout=_TIMEOUT_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise ImageFailed(f"modules cannot be tried: {error}") from None
    return (done.stderr.splitlines() or [""])[-1].split()
