"""What a hung worker waits for, and whom it blames. Real ones: tests/integration/test_drill.py."""

import os
from pathlib import Path

import pytest

from pasture.proc.tasks import is_locked
from pasture_tools.doctor import waits
from pasture_tools.doctor.hung import findings
from pasture_tools.doctor.waits import Lost, Process, Waiting

pytestmark = pytest.mark.once

PRICE = ("threading.py:9 in acquire", "shop.py:13 in price", "sync.py:30 in run")
MAIN = Waiting(7, "gunicorn", "futex", "futex 0x7f", PRICE)
BARE = Waiting(7, "uwsgi", "futex", "futex 0x7f")
IDLE = Waiting(7, "gunicorn", "epoll_wait", "")
POOL = Waiting(8, "pool", "recvfrom", "socket:[5]")
OTHER = Lost("exporter", ("grpc.py:1 in send",))
REFRESHER = Lost("refresher", ("shop.py:7 in refresh",))


@pytest.mark.parametrize(
    ("process", "what"),
    [
        (Process(7, (IDLE,)), "process 7 waits for no lock: 7 gunicorn waits in epoll_wait"),
        (
            Process(7, (MAIN,), (OTHER, REFRESHER), noted=True),
            "process 7 waits for a lock at shop.py:13 in price; its parent's thread refresher, "
            "which it lacks, was at shop.py:7 in refresh when it was forked",
        ),
        (Process(7, (MAIN,), (OTHER,)), "thread exporter, which it lacks, is at grpc.py:1 in send"),
        (Process(7, (BARE, POOL)), "process 7 waits for a lock outside of Python"),
        (Process(7, (BARE,)), "waits for a lock, and so do all of its threads"),
        (Process(7, (MAIN, POOL)), "of its 2 threads 1 wait for no lock"),
        (Process(7, (BARE, POOL), by_design=True), "waits by design: others serve"),
        (Process(7, (MAIN,)), "and so do all of its threads: one of them holds it"),
    ],
)
def test_a_worker_that_waits_for_a_lock_blames_the_lost_thread_that_was_nearest(
    process: Process, what: str
) -> None:
    [found] = findings(process)
    assert what in found.what
    assert (
        found.is_obstacle
        == (process.threads[0] is MAIN or process.threads == (BARE,))
        == bool(found.fix)
    )


@pytest.mark.parametrize(
    ("syscall", "call", "on"),
    [
        ("futex 0x7f10 0x189 0x0 0x0 0x0 0x0 0x7ffd 0x7f11", "futex", "futex 0x7f10"),
        ("futex 0x7f10 0x189 0x0 0x7ffe 0x0 0x0 0x7ffd 0x7f11", waits._TIMED, "futex 0x7f10"),
        ("recvfrom 0x5 0x1 0x2 0x0 0x0 0x0 0x7ffd 0x7f11", "recvfrom", "socket:[77]"),
        ("running", "", ""),
        ("-1 0x7ffd 0x7f11", "", ""),
        ("9999 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f11", "call 9999", ""),
    ],
)
def test_the_call_that_a_thread_waits_in_is_read(
    tmp_path: Path, syscall: str, call: str, on: str
) -> None:
    numbers = {name: number for number, name in waits._CALLS[os.uname().machine].items()}
    word, _, rest = syscall.partition(" ")
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)
    (tmp_path / "7" / "fd").mkdir()
    (tmp_path / "7" / "fd" / "5").symlink_to("socket:[77]")
    (tmp_path / "7" / "task" / "7" / "syscall").write_text(f"{numbers.get(word, word)} {rest}")
    assert waits._call(tmp_path / "7", 7) == (call, on)


FUTEX, EPOLL = (
    next(n for n, call in waits._CALLS[os.uname().machine].items() if call == name)
    for name in ("futex", "epoll_pwait")
)
LOCKED = f"{FUTEX} 0x7f10 0x189 0x0 0x0 0x0 0x0 0x7ffd 0x7f11"
POLLS = f"{EPOLL} 0x5 0x189 0x0 0x0 0x0 0x0 0x7ffd 0x7f11"


def process_of(threads: tuple[str, ...], proc: Path) -> None:
    """Process 7, by the calls that its threads wait in."""
    status = "State:\tS\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
    for number, call in enumerate(threads, 7):
        folder = proc / "7" / "task" / str(number)
        folder.mkdir(parents=True)
        (folder / "syscall").write_text(call)
        (folder / "status").write_text(status)


@pytest.mark.parametrize(
    ("threads", "locked", "locked_if_main_serves"),
    [
        ((LOCKED,), True, True),
        ((LOCKED, LOCKED), True, True),
        ((LOCKED, POLLS), False, True),  # uvicorn's thread that answers its supervisor
        ((POLLS, LOCKED), False, False),
    ],
)
def test_a_thread_that_waits_for_messages_may_serve_unless_the_main_one_does(
    tmp_path: Path, threads: tuple[str, ...], locked: bool, locked_if_main_serves: bool
) -> None:
    process_of(threads, tmp_path)
    assert is_locked(7, tmp_path) == locked
    assert is_locked(7, tmp_path, main_serves=True) == locked_if_main_serves


@pytest.mark.parametrize(
    ("library", "threads", "is_hung"),
    [
        ("granian/_granian.so", (LOCKED, POLLS), False),  # idle, or busy: a thread of Rust serves
        ("granian/_granian.so", (LOCKED, LOCKED), True),
        ("grpc/_cython.so", (LOCKED, POLLS), True),
    ],
)
def test_a_worker_is_hung_where_its_engine_does_not_wait_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    threads: tuple[str, ...],
    is_hung: bool,
) -> None:
    process_of(threads, tmp_path)
    (tmp_path / "7" / "maps").write_text(f"7f00-7f10 r-xp 0 0:1 1 /lib/{library}\n")
    monkeypatch.setattr(waits, "_BETWEEN_LOOKS_S", 0)
    # The number is the parent's where C code has forked.
    monkeypatch.setattr(waits, "_frames", lambda pid: ({99: PRICE}, ""))
    assert bool(waits.hung_among([7], {}, serves=True, proc=tmp_path)) == is_hung
