"""Which server is meant where the user names none."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from pasture.errors import UsageError
from pasture.proc import tree


def test_the_only_pre_fork_server_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [42])
    assert tree.only_master("top") == 42


def test_without_a_server_the_hint_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find_masters", list)
    with pytest.raises(UsageError, match="no pre-fork server") as raised:
        tree.only_master("explain")
    assert raised.value.hint == "pasture explain PID, of a worker or its master"


def test_several_are_listed_with_workers_memory_and_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [os.getpid(), 1 << 30])
    with pytest.raises(UsageError, match="2 pre-fork servers") as raised:
        tree.only_master("top")
    first, own, ended = raised.value.hint.splitlines()
    assert first == "pasture top PID, of one of these:"
    assert own.split()[:4] == [str(os.getpid()), "0", "workers,", "PSS"]
    assert "python" in own
    assert ended.split() == [str(1 << 30), "0", "workers"]


def test_a_command_line_stays_one_line_and_sends_nothing_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [os.getpid(), 1 << 30])
    monkeypatch.setattr(tree, "command_of", lambda _: ("python", "-c", "import x\n\x1b[2Jx.run()"))
    with pytest.raises(UsageError) as raised:
        tree.only_master("top")
    assert raised.value.hint.count("\n") == 2
    assert "\x1b" not in raised.value.hint and "x.run()" in raised.value.hint


FORKS = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(60)"


def test_of_a_shell_the_one_master_below_it_is_meant_of_two_neither() -> None:
    program = f"{sys.executable} -c '{FORKS}'"
    shell = subprocess.Popen(
        ["sh", "-c", f"{program} & {program} & wait"], stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    try:
        pids = {int(shell.stdout.readline()) for _ in range(4)}
        first, second = (pid for pid in pids if tree.master_of(pid) == pid)
        [worker] = tree.workers_of(first)
        assert tree.server_of(worker, "top") == worker
        assert tree.server_of(first, "top") == first
        with pytest.raises(UsageError, match="2 pre-fork servers"):
            tree.server_of(shell.pid, "top")
        for pid in (second, *tree.workers_of(second)):
            os.kill(pid, 9)
        while tree.workers_of(second):
            time.sleep(0.01)
        assert tree.server_of(shell.pid, "top") == first
    finally:
        for pid in (shell.pid, *tree.descendants(shell.pid)):
            os.kill(pid, 9)
        shell.wait()


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (("python", "/opt/bin/pytest", "-n", "2"), False),
        (("python", "-m", "unittest"), False),
        (("python", "-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"), False),
        (("python", "/opt/bin/gunicorn", "shop:app"), True),
    ],
)
def test_a_test_run_is_no_server(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], counts: bool
) -> None:
    parents = {10: 1, 11: 10}
    monkeypatch.setattr(
        tree, "pythons", lambda: ((n, SimpleNamespace(parent_pid=p)) for n, p in parents.items())
    )
    monkeypatch.setattr(tree, "_is_forked", lambda pid, parent: pid == 11)
    monkeypatch.setattr(tree, "command_of", lambda pid: command)
    assert tree.find_masters() == ((10,) if counts else ())
