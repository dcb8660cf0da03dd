"""Objects of the standard library that an import has made: each child of an engine can use them."""

import pytest

PRELUDE = """
import concurrent.futures, multiprocessing, signal, time
from pasture.fork_safety import streams

streams.begin()
streams.arm()

def forked(body):
    # What a child of this process prints, which ends as any program does.
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    signal.alarm(300)
    print(body())
    sys.exit()
"""

POOL = """
pool = concurrent.futures.{kind}(2)
print([future.result(300) for future in [pool.submit(abs, -one) for one in (1, 2, 3)]])
"""


@pytest.mark.parametrize("kind", ["ThreadPoolExecutor", "ProcessPoolExecutor"])
@pytest.mark.parametrize("late", [False, True], ids=["", "imported before the engine's hook"])
def test_an_executor_works_in_a_child_that_has_none_of_its_threads(run_program, kind, late):
    begin = "import concurrent.futures.thread, concurrent.futures.process\n" if late else ""
    out = run_program(
        begin
        + PRELUDE
        + POOL.format(kind=kind)
        + """
streams.note()
status = forked(lambda: [pool.submit(abs, -one).result(300) for one in (4, 5)])
print(status, pool.submit(abs, -6).result(300))
"""
    )
    assert out == "[1, 2, 3]\n[4, 5]\n0 6\n"


@pytest.mark.parametrize("kind", ["ThreadPoolExecutor", "ProcessPoolExecutor"])
def test_an_executor_with_work_left_or_that_has_ended_stays_as_it_is(run_program, kind):
    out = run_program(
        PRELUDE
        + POOL.format(kind=kind)
        + """
ended = concurrent.futures.{kind}(1)
ended.submit(abs, -1).result(300)
busy = [pool.submit(time.sleep, 0.5) for _ in range(6)]
streams.note()
ended.shutdown()
before = {name: value for name, value in vars(pool).items() if type(value) is not int}
def look():
    return all(vars(pool)[name] is value for name, value in before.items())
status = forked(look)
print(status, [one.result(300) for one in busy].count(None))
try: ended.submit(abs, -1)
except RuntimeError: print("ended")
""".replace("{kind}", kind)
    )
    assert out.splitlines()[1:] == ["True", "0 6", "ended"]


def test_a_child_ends_no_process_that_the_import_has_started(run_program):
    out = run_program(
        PRELUDE
        + """
context = multiprocessing.get_context("fork")
daemon = context.Process(target=time.sleep, args=(60,), daemon=True)
other = context.Process(target=time.sleep, args=(60,))
daemon.start(), other.start()
streams.note()
status = forked(lambda: multiprocessing.active_children())
print(status, daemon.is_alive(), other.is_alive(), len(multiprocessing.active_children()))
daemon.kill(), other.kill()
"""
    )
    assert out == "[]\n0 True True 2\n"


def test_children_of_multiprocessing_take_its_own_steps_once(run_program):
    out = run_program(
        PRELUDE
        + """
from multiprocessing import util
class Counted: count = 0
counted = Counted()
def after(one): one.count += 1
util.register_after_fork(counted, after)
for _ in range(2):
    streams.note()
    status = forked(lambda: counted.count)
    work = lambda: print(counted.count, flush=True)
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(300)
    print(counted.count)
"""
    )
    assert out == "1\n1\n0\n" * 2


def test_a_childs_own_children_are_as_without_pasture(run_program):
    out = run_program(
        PRELUDE
        + """
from multiprocessing import util
import socket
class Counted: count = 0
counted = Counted()
def after(one): one.count += 1
util.register_after_fork(counted, after)
server = socket.create_server(("127.0.0.1", 0))
streams.note()
def child():
    own = socket.create_connection(server.getsockname())
    number = os.fstat(own.fileno()).st_ino
    def grandchild():
        return counted.count, os.fstat(own.fileno()).st_ino == number
    forked(grandchild)
    return "ended"
status = forked(child)
print(status)
"""
    )
    assert out == "(1, True)\nended\n0\n"


def test_one_step_that_fails_hinders_no_other(run_program):
    out = run_program(
        PRELUDE
        + POOL.format(kind="ThreadPoolExecutor")
        + """
multiprocessing.process._children.add(object())
streams.note()
status = forked(lambda: pool.submit(abs, -4).result(300))
multiprocessing.process._children.clear()
print(status)
"""
    )
    assert out == "[1, 2, 3]\n4\n0\n"


def test_a_file_is_read_on_alone_however_it_was_opened(run_program):
    out = run_program(
        PRELUDE
        + """
import tempfile
path = tempfile.NamedTemporaryFile()
path.write(b"lines")
path.flush()
number = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW)
os.read(number, 1)
streams.note()
print([forked(lambda: os.read(number, 2)) for _ in range(2)])
"""
    )
    assert out == "b'in'\nb'in'\n[0, 0]\n"
