"""Processes that a server's parent forks where it would spawn them: their end."""

import sys

import pytest
from running import completed

PROGRAM = """
import os, time
from pasture.serving.forked_process import Forking

def end_by_itself(reader):
    os.read(reader, 1)
    time.sleep(0.2)

for ends_within_s, target in ((60, end_by_itself), (0.1, time.sleep)):
    context = Forking(lambda: None, ends_within_s=ends_within_s)
    reader, writer = os.pipe()
    workers = [context.Process(target=target, args=(reader if target is end_by_itself else 600,))
               for _ in range(2)]
    for worker in workers:
        worker.start()
    os.write(writer, b"..")
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()
    print(*(worker.exitcode for worker in workers))
"""

LIKE_A_SPAWNED_ONE = """
import atexit, os, signal
from pasture.serving.forked_process import Forking

parent = os.getpid()
atexit.register(lambda: os.getpid() == parent or os.write(1, b"the application's end\\n"))
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup

def work():
    pipes = sum(os.readlink(f"/proc/self/fd/{fd}").startswith("pipe") for fd in range(3, 30)
                if os.path.exists(f"/proc/self/fd/{fd}"))
    handlers = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP))
    print(handlers == (signal.SIG_DFL, signal.SIG_IGN), pipes, flush=True)

context = Forking(lambda: None)
first, second = (context.Process(target=target, args=args)
                 for target, args in ((os.read, (os.pipe()[0], 1)), (work, ())))
first.start()
second.start()
second.join()
os.kill(first.pid, signal.SIGKILL)
first.join()
"""


FAILS_TO_START = """
import errno, os
from pasture.serving.forked_process import Forking

def refuse(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))
    return fail

def second(function, calls=[0]):
    def call():
        calls[0] += 1
        return function() if calls[0] % 2 else refuse(errno.EMFILE)()
    return call

context = Forking(lambda: None)
for name, fails in (("fork", refuse(errno.EAGAIN)), ("pipe", refuse(errno.EMFILE)),
                    ("pipe", second(os.pipe))):
    before, plain = len(os.listdir("/proc/self/fd")), getattr(os, name)
    for _ in range(5):
        setattr(os, name, fails)
        try:
            context.Process(target=print).start()
        except OSError:
            print("refused", end=" ")
        finally:
            setattr(os, name, plain)
    print(len(os.listdir("/proc/self/fd")) - before)
"""


@pytest.mark.once
def test_a_start_that_fails_leaves_no_descriptor():
    command = [sys.executable, "-c", FAILS_TO_START]
    done = completed(command)
    assert done.stdout == ("refused refused refused refused refused 0\n") * 3, done


@pytest.mark.once
def test_a_worker_has_nothing_of_its_parent_and_calls_what_was_given_to_atexit():
    command = [sys.executable, "-c", LIKE_A_SPAWNED_ONE]
    done = completed(command)
    # Two ends are of the program's own pipe, two report the end of the parent and of the worker.
    assert done.stdout.split("\n") == ["True 4", "the application's end", ""], done.stderr


@pytest.mark.once
def test_a_terminated_worker_has_the_time_that_its_server_gives_it_and_no_more():
    done = completed([sys.executable, "-c", PROGRAM])
    assert done.stdout.split("\n") == ["0 0", "-15 -15", ""], done.stderr
