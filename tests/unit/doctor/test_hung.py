"""What a hung worker waits for, and whom it blames. Real ones: tests/integration/test_drill.py."""

import os
from pathlib import Path

import pytest

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
        (Process(7, (BARE,)), "process 7 waits for a lock outside of Python"),
        (Process(7, (MAIN, POOL)), "of its 2 threads 1 wait for no lock"),
        (Process(7, (MAIN,)), "and so do all of its threads: one of them holds it"),
    ],
)
def test_a_worker_that_waits_for_a_lock_blames_the_lost_thread_that_was_nearest(
    process: Process, what: str
) -> None:
    [found] = findings(process)
    assert what in found.what
    assert found.is_obstacle == (process.threads[0] is MAIN) == bool(found.fix)


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
