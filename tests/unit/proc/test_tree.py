"""What readers of /proc make of its files, and of files as no kernel writes them."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pasture.errors import ProcessEnded, UsageError
from pasture.proc import tree
from pasture.proc.maps import python_version
from pasture.proc.smaps import require_smaps_rollup
from pasture.proc.stat import parse_stat, read_stat, start_time
from pasture.proc.tasks import Task, parse_status, read_tasks
from pasture.proc.tree import processor_s, read_again
from pasture_tools.proc.environ import read_environ

FIELDS = " ".join(["S", *(str(number) for number in range(4, 53))])


def _proc(tmp_path: Path, name: str, data: bytes) -> Path:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / name).write_bytes(data)
    return tmp_path


def test_fields_are_counted_from_after_a_name_that_holds_brackets_and_spaces() -> None:
    stat = parse_stat(f"7 (a) R 1 (b)) {FIELDS}\n".encode())
    assert stat.state == "S" and not stat.has_ended
    # Each field's number in proc_pid_stat(5) is at its place.
    assert (stat.flags, stat.minor_faults, stat.major_faults) == (9, 10, 12)
    assert (stat.start_time, stat.start_code, stat.start_stack) == (22, 26, 28)
    assert stat.processor_s * os.sysconf("SC_CLK_TCK") == pytest.approx(14 + 15 + 16 + 17)


SPINS = """
import os, sys, time
def spin():
    while time.process_time() < 0.2:
        pass
for ended in (True, False):
    pid = os.fork()
    if not pid:
        spin()
        if ended:
            os._exit(0)
        print("spun", flush=True)
        sys.stdin.read()
        os._exit(0)
    if ended:
        os.waitpid(pid, 0)
sys.stdin.read()
"""


def test_processor_time_of_a_tree_is_that_of_children_that_live_and_that_have_ended() -> None:
    command = [sys.executable, "-c", SPINS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        parent.stdout.readline()
        alone = read_stat(parent.pid)
        found = processor_s(parent.pid)
        parent.stdin.close()
    least_s = 0.18  # of the 0.2 that each child took, in clock ticks of 10 ms
    assert alone is not None and alone.processor_s >= least_s
    assert found >= alone.processor_s + least_s
    assert processor_s(parent.pid) == 0


def _process(proc: Path, pid: int, parent: int, start: int, command: bytes = b"") -> None:
    words = ["S", str(parent), *FIELDS.split()[2:]]
    words[19] = str(start)
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} (a) {' '.join(words)}")
    (proc / str(pid) / "cmdline").write_bytes(command)


def test_children_are_those_that_began_after_their_parent(tmp_path: Path) -> None:
    for pid, parent, start in ((7, 1, 50), (9, 7, 51), (8, 7, 50), (6, 7, 49), (5, 8, 60)):
        _process(tmp_path, pid, parent, start)
    assert tree.children(7, tmp_path) == (8, 9)
    assert tree.children(7, tmp_path, recursive=True) == (5, 8, 9)
    assert tree.children(4, tmp_path, recursive=True) == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"python\0-c\0\0x y\0", ("python", "-c", "", "x y")),
        (b"gunicorn: master [app]\0\0\0", ("gunicorn:", "master", "[app]")),
        (b"", ()),
    ],
)
def test_a_command_is_its_arguments_or_the_words_of_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(tree, "_PROC", tmp_path)
    _process(tmp_path, 7, 1, 1, data)
    assert tree.command_of(7) == words
    assert tree.command_of(8) == ()


@pytest.mark.parametrize(("state", "ended"), [("R", False), ("D", False), ("Z", True), ("X", True)])
def test_a_zombie_has_ended(tmp_path: Path, state: str, ended: bool) -> None:
    proc = _proc(tmp_path, "stat", f"7 (a) {state}{FIELDS[1:]}".encode())
    stat = read_stat(7, proc)
    assert stat is not None and stat.has_ended is ended


def test_a_thread_of_the_kernel_is_known_by_its_flags() -> None:
    words = FIELDS.split()
    words[6] = str(0x00200000 | 64)
    assert parse_stat(f"2 (kthreadd) {' '.join(words)}".encode()).is_kernel_thread


@pytest.mark.parametrize("data", [b"", b"7 (a) S 1 2 3", b"7 (a) S " + b"x " * 60])
def test_a_line_that_is_cut_or_holds_no_numbers_is_no_process(tmp_path: Path, data: bytes) -> None:
    assert read_stat(7, _proc(tmp_path, "stat", data)) is None


def test_a_process_that_is_gone_has_neither_state_nor_environment(tmp_path: Path) -> None:
    assert read_stat(7, tmp_path) is None
    assert read_environ(7, tmp_path) == {}


def test_no_process_has_ended_where_none_of_its_files_can_be_opened() -> None:
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            read_stat(os.getpid())
        with pytest.raises(OSError, match="Too many open files"):
            require_smaps_rollup()
        assert start_time(os.getpid()) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_of_variables_with_one_name_the_first_is_the_one_that_programs_see(tmp_path: Path) -> None:
    proc = _proc(tmp_path, "environ", b"A=1\0B=x=y\0A=2\0overwritten\0C=\0\xff=\xfe\0")
    found = read_environ(7, proc)
    assert (found["A"], found["B"], found["C"]) == ("1", "x=y", "")
    assert len(found) == 4  # bytes that are no text do not matter


_OVERWRITES = """
import ctypes, os, sys
for name, value in os.environ.items():
    os.putenv(name, value)
start, end = (int(n) for n in open("/proc/self/stat").read().rpartition(")")[2].split()[47:49])
ctypes.memset(start, 0, end - start)
print(flush=True)
sys.stdin.read()
"""


def test_variables_that_a_title_was_written_over_are_found_where_libc_has_them() -> None:
    environ = {"PASTURE_SNAPSHOT": "/run/snapshot-{pid}", "LONG": "x" * 9000}
    child = subprocess.Popen(
        [sys.executable, "-c", _OVERWRITES],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        assert b"PASTURE" not in Path(f"/proc/{child.pid}/environ").read_bytes()
        assert read_environ(child.pid).items() >= environ.items()


def test_an_overwritten_environment_of_a_process_whose_memory_cannot_be_read_is_empty(
    tmp_path: Path,
) -> None:
    assert read_environ(7, _proc(tmp_path, "environ", b"\0" * 64)) == {}


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (["/usr/bin/python3.14"], (3, 14)),
        (["/opt/py/python3.12t"], (3, 12)),
        (["/usr/lib/python3.11/x.so", "/usr/lib/libpython3.13.so.1.0"], (3, 13)),
        (["/usr/lib/python3.11/x.so", "/srv/bin/python3.12"], (3, 12)),
        (["/srv/lib/python3.11/site-packages/a.so"], (3, 11)),
        (["/usr/bin/ruby3.2", ""], None),
        ([], None),
    ],
)
def test_the_surest_name_says_the_version(
    files: list[str], version: tuple[int, int] | None
) -> None:
    assert python_version(iter(files)) == version


def test_a_torn_reading_is_taken_again_with_a_pause_between() -> None:
    readings, pauses = iter([None, None, 5, 6]), []
    assert read_again(lambda: next(readings), 4, lambda: pauses.append(1)) == 5
    assert len(pauses) == 2


def test_readings_that_are_always_torn_end_without_a_last_pause() -> None:
    pauses: list[int] = []
    assert read_again(lambda: None, 3, lambda: pauses.append(1)) is None
    assert len(pauses) == 2


def test_the_end_of_a_process_is_reported_only_after_the_last_try() -> None:
    left = [ProcessEnded("one", hint=""), ProcessEnded("two", hint="")]

    def read() -> int:
        raise left.pop(0)

    with pytest.raises(ProcessEnded, match="two"):
        read_again(read, 2)
    assert left == []


def test_a_reading_that_is_zero_is_a_reading() -> None:
    assert read_again(lambda: 0, 1) == 0


STATUS = (
    "Name:\ta: b\nState:\t{state}\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
)


@pytest.mark.parametrize(
    ("state", "asleep"),
    [
        ("S (sleeping)", True),
        ("R (running)", False),
        ("D (disk sleep)", False),
        ("t (tracing stop)", False),
    ],
)
def test_a_thread_has_run_as_often_as_it_gave_its_processor_up(state: str, asleep: bool) -> None:
    assert parse_status(STATUS.format(state=state)) == Task(10, asleep)


@pytest.mark.parametrize("text", ["", "State:\n", "State:\tS\nvoluntary_ctxt_switches:\tx\n"])
def test_a_thread_whose_status_is_cut_is_left_out(tmp_path: Path, text: str) -> None:
    for number, content in ((7, text), (8, STATUS.format(state="S (sleeping)"))):
        (tmp_path / "7" / "task" / str(number)).mkdir(parents=True)
        (tmp_path / "7" / "task" / str(number) / "status").write_text(content)
    assert read_tasks(7, tmp_path) == {8: Task(10, True)}


def test_where_there_is_no_proc_there_are_no_threads(tmp_path: Path) -> None:
    assert read_tasks(proc=tmp_path / "none") == {}


# --- Which server is meant where the user names none ---


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
