"""Which forks of a program lead to workers, and when the seal's condition is met."""

import os
import re
import subprocess
import sys
from types import FrameType, ModuleType, SimpleNamespace

import pytest

from pasture.interpreter import native
from pasture.serving.fork_hook import is_there, leads_elsewhere


def fork() -> FrameType:
    """The frame of the function that would fork."""
    return sys._getframe(1)


def start_worker() -> FrameType:
    return fork()


def run_program() -> FrameType:
    frame = fork()
    if frame is None:
        os.execv("/bin/true", ["true"])
    return frame


def fork_then_exit_parent() -> FrameType:
    return fork()


def daemonize() -> FrameType:
    frame = fork_then_exit_parent()
    if frame is None:
        os.setsid()
    return frame


def become_daemon_at_once() -> FrameType:
    frame = fork()
    if frame is None:
        os.setsid()
    return frame


def test_a_fork_for_a_worker_leads_nowhere_else() -> None:
    assert not leads_elsewhere(start_worker())
    assert not leads_elsewhere(None)


def test_a_fork_beside_an_exec_leads_to_another_program() -> None:
    assert leads_elsewhere(run_program())


def test_forks_of_a_daemon_are_known_in_one_function_and_in_two() -> None:
    assert leads_elsewhere(daemonize())
    assert leads_elsewhere(become_daemon_at_once())


def test_forks_of_subprocess_and_pty_lead_elsewhere() -> None:
    for name in ("/usr/lib/python3.14/subprocess.py", "/usr/lib/python3.14/pty.py"):
        found: dict[str, FrameType] = {}
        code = compile("import sys\ndef f():\n    return sys._getframe()", name, "exec")
        exec(code, found)
        assert leads_elsewhere(found["f"]())  # type: ignore[operator]


def module(initializing: bool = False, **names: object) -> ModuleType:
    made = ModuleType("made")
    made.__spec__ = SimpleNamespace(_initializing=initializing)  # type: ignore[assignment]
    vars(made).update(names)
    return made


@pytest.mark.parametrize(
    ("target", "found", "expected"),
    [
        ("", None, True),
        ("app", None, False),
        ("app", module(initializing=True), False),
        ("app", module(), True),
        ("app:TABLE", module(), False),
        ("app:TABLE", module(TABLE=None), False),
        ("app:TABLE", module(TABLE=[]), True),
        ("app:TABLE", module(initializing=True, TABLE=[]), False),
    ],
)
def test_the_condition_is_a_module_or_a_name_that_is_set(
    target: str, found: ModuleType | None, expected: bool
) -> None:
    assert is_there(target, {} if found is None else {"app": found}) is expected


REGISTERED_LATE = """
import os, threading
from pasture.serving import fork_hook
lock, calls = threading.Lock(), []
def raises():
    calls.append("raises")
    raise ValueError("of a hook")
def load(caller):
    calls.append("load")
    if len(calls) == 1:
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                            after_in_child=lock.release)
        os.register_at_fork(before=raises)
os.register_at_fork(before=lambda: calls.append("older"))
fork_hook.before_each(load)
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        os._exit(lock.locked())
    assert os.waitpid(pid, 0)[1] == 0
assert calls == ["load", "raises", "older", "raises", "load", "older"], calls
assert not lock.locked()
"""


def test_hooks_are_found_by_one_of_them_alone() -> None:
    def unknown() -> None:
        raise AssertionError

    assert native().before_forks(unknown) == 0
    assert native().run_before_fork(unknown, 1) is None
    done = subprocess.run(
        [sys.executable, "-c", "from pasture import _native; print(_native.before_forks(print))"],
        capture_output=True,
        text=True,
    )  # where nothing has registered one
    assert done.stdout == "0\n", done.stderr


@pytest.mark.interpreter
def test_a_hook_that_a_module_registers_before_a_fork_is_called_before_that_fork() -> None:
    done = subprocess.run([sys.executable, "-c", REGISTERED_LATE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ignored = [line for line in done.stderr.splitlines() if line.startswith("Exception ignored in")]
    assert len(ignored) == 2 and len({re.sub("0x[0-9a-f]+", "", line) for line in ignored}) == 1
