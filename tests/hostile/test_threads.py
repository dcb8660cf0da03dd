"""Sealing beside threads: those that wait are proved to, those that run are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from pasture import _native

STRESS = Path(__file__).parents[2] / "benchmarks" / "programs" / "threads.py"

WAITS = {
    "lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "event": "threading.Event().wait()",
    "condition with a limit": "threading.Event().wait(600)",
    "queue": "import queue; queue.Queue().get()",
    "pipe": "os.read(os.pipe()[0], 1)",
    "socket": "import socket; a, b = socket.socketpair(); a.recv(1)",
    "buffered file": "open(os.pipe()[0], 'rb').read(1)",
    "accept": "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()",
    "select": "import select; select.select([os.pipe()[0]], [], [])",
    "poll": "import select; p = select.poll(); p.register(os.pipe()[0], 1); p.poll()",
    "epoll": "import select; e = select.epoll(); e.register(os.pipe()[0], 1); e.poll()",
    "sleep": "time.sleep(600)",
    "signal": "import signal; signal.sigwait([signal.SIGUSR2])",
    "event loop": "import asyncio; asyncio.run(asyncio.sleep(600))",
    "executor": "import concurrent.futures as f; f.Future().result()",
    "now and then": "while True: time.sleep(0.05)",
    "a hundred times a second": "while True: time.sleep(0.0098)",
}

RUNS = {
    "Python": "while True: pass",
    "without the lock": "import hashlib\n    while True: hashlib.sha256(bytes(1 << 26))",
}

START = """
import threading, time
def work():
    {body}
thread = threading.Thread(target=work, name="neighbour", daemon=True)
thread.start()
time.sleep(0.2)
kept = [["kept " + str(i)] for i in range(1000)]
report = pasture.seal()
"""

AGAIN = """
for _ in range(1000):  # on a busy machine one that is on its way, or wakes now and then, is awake
    if report.sealed: break
    report = pasture.seal()
"""


def test_a_thread_that_waits_is_no_obstacle(run_each):
    show = """
print(report.sealed, report.reason, report.step("survey").problems)
in_child(lambda: len(kept))
os._exit(0)
"""
    programs = {name: START.format(body=body) + AGAIN + show for name, body in WAITS.items()}
    outputs = run_each(programs)
    assert outputs.keys() == WAITS.keys()
    for name, out in outputs.items():
        assert out.startswith("True None ("), (name, out)
        assert "neighbour" in out and out.endswith("1000\n"), (name, out)


@pytest.mark.parametrize("body", RUNS.values(), ids=RUNS.keys())
def test_a_thread_that_runs_is_named_with_its_calls_and_steps_are_left_out(run_program, body):
    out = run_program(
        START.format(body=body)
        + """
left_out = [step.name for step in report.steps if step.skipped]
print(report.sealed, " in work)" in report.reason, "neighbour" in report.reason)
print("immortalize" in left_out, "freeze" in left_out)
in_child(lambda: len(kept))
os._exit(0)
"""
    )
    assert out == "False True True\nTrue False\n1000\n"


def test_a_thread_that_sleeps_half_a_millisecond_at_a_time_goes_on_found_asleep_or_not(run_program):
    out = run_program("""
        import threading, time
        from pasture import _native
        turns, wrong = [0], []
        def work():
            while not wrong:
                time.sleep(0.0005)
                made = {n: [str(n), (n, n + 1)] for n in range(50)}
                if sum(first for _, (first, _) in made.values()) != 1225:
                    wrong.append(made)
                turns[0] += 1
        threading.Thread(target=work, name="neighbour", daemon=True).start()
        kept = [["kept " + str(i)] for i in range(1000)]
        for _ in range(3):
            report = pasture.seal()
            left_out = [step.name for step in report.steps if step.skipped]
            assert report.sealed or " in work)" in report.reason, report
            if _native.HAS_IMMORTALITY:
                assert ("immortalize" in left_out) is not report.sealed, report
            in_child(lambda: len(kept))
            before = turns[0]
            while turns[0] < before + 20 and not wrong:
                time.sleep(0.001)
        assert not wrong, wrong
        sys.stdout.flush()
        os._exit(0)
    """)
    assert out == "1000\n" * 3


def test_a_thread_of_c_code_counts_although_no_one_knows_its_name(run_program):
    out = run_program("""
        import _thread, time
        from pasture import _native
        from pasture.fork_safety import threads
        lock = _thread.allocate_lock()
        lock.acquire()
        _thread.start_new_thread(lock.acquire, ())
        while not all(one.waits for one in threads.look(_native.python_threads())): pass
        print([(one.name, one.waits) for one in threads.look(_native.python_threads())])
        def count():
            while True: pass
        _thread.start_new_thread(count, ())
        found = threads.look(_native.python_threads(), grace_s=0.1)
        print(sorted(one.waits for one in found))
        sys.stdout.flush()
        os._exit(0)
    """)
    first, second = out.splitlines()
    assert first == "[('a thread that C code started', True)]"
    assert second == "[False, False]", "it is not known which of the two it is"


def test_without_proc_no_thread_is_proved_to_wait(run_program):
    out = run_program("""
        import threading, time
        from pathlib import Path
        from pasture.fork_safety import threads
        from pasture.proc.tasks import read_tasks
        threads.read_tasks = lambda: read_tasks(proc=Path("/nowhere"))
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        print([one.waits for one in threads.look(2, grace_s=0.05)])
        sys.stdout.flush()
        os._exit(0)
    """)
    assert out == "[False]\n"


@pytest.mark.skipif(not _native.HAS_IMMORTALITY, reason="CPython before 3.12 seals less")
def test_threads_that_allocate_compute_wait_and_fork_while_the_process_seals():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(STRESS), "4", "0"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
