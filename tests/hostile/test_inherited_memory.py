"""Shared memory that an import has made: each child has what plain workers have, one for itself."""

import pytest

PRELUDE = """
import ctypes, fcntl, mmap, multiprocessing, os, sys, time
from multiprocessing import sharedctypes
from pasture.fork_safety import held, own_memory, streams

context = multiprocessing.get_context("fork")
streams.begin()
streams.arm()
watch = held.Import()

def children(body, count=2):
    # The statuses of children that run `body` at once, each with its number.
    sys.stdout.flush()
    pids = []
    for number in range(1, count + 1):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                body(number)
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            os._exit(status)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]

def hazards():
    watch.end()
    found = [one.kind.value for one in watch.hazards()]
    streams.note()
    return found

"""

THINGS = """
lock, slots = context.Lock(), context.Semaphore(2)
value, array = context.Value("i", 7), context.Array("d", [1.5] * 2000)
raw = sharedctypes.RawArray(ctypes.c_char, 3 << 20)
raw[2 << 20] = b"x"
event, condition = context.Event(), context.Condition()
anonymous = mmap.mmap(-1, 3 * mmap.PAGESIZE)
anonymous[:3], anonymous[-1:] = b"abc", b"z"
number = os.memfd_create("theirs")
os.write(number, b"hello")
file, view = mmap.mmap(number, 5), mmap.mmap(number, 5, prot=mmap.PROT_READ)
"""


def test_a_child_finds_what_the_import_left_and_shares_it_with_its_own_children_alone(run_program):
    out = run_program(
        PRELUDE
        + THINGS
        + """
assert hazards() == []

def in_own_child():
    value.value, anonymous[:1] = 99, b"C"
    os.pwrite(number, b"W", 1)
    lock.release()
    event.set()

def child(n):
    assert value.value == 7 and array[1999] == 1.5 and raw[2 << 20] == b"x"
    assert anonymous[:3] == b"abc" and anonymous[-1:] == b"z" and file[:] == view[:] == b"hello"
    assert not event.is_set() and lock.acquire(timeout=120)
    assert slots.acquire(timeout=120) and slots.acquire(timeout=120)
    assert not slots.acquire(timeout=0.01)
    value.value, array[0], raw[0], anonymous[:1], file[:1] = n, n, bytes([n]), b"A", b"F"
    assert view[:1] == os.pread(number, 1, 0) == b"F" and os.lseek(number, 0, os.SEEK_CUR) == 5
    assert file.size() == os.fstat(number).st_size == 5
    with condition:
        condition.notify_all()
    own = context.Process(target=in_own_child)
    own.start()
    own.join()
    assert event.is_set() and lock.acquire(timeout=120) and value.value == 99
    assert anonymous[:1] == b"C" and file[:2] == b"FW"
    time.sleep(0.1)  # the other one writes meanwhile
    assert (value.value, array[0], raw[0]) == (99, n, bytes([n]))

print(children(child))
assert value.value == 7 and array[0] == 1.5 and raw[0] == b"\\0" and not event.is_set()
assert lock.acquire(timeout=120) and anonymous[:3] == b"abc" and file[:] == b"hello"
"""
    )
    assert out == "[0, 0]\n"


def test_what_the_server_has_mapped_before_the_import_stays_shared(run_program):
    out = run_program(
        "import mmap\nbefore = mmap.mmap(-1, 9)\n"
        + PRELUDE
        + """
after = mmap.mmap(-1, 9)
assert hazards() == []

def child(n):
    before[n], after[n] = n, n

print(children(child), before[:3], after[:3])
"""
    )
    assert out == r"[0, 0] b'\x00\x01\x02' b'\x00\x00\x00'" + "\n"


@pytest.mark.parametrize(
    "named",
    [
        pytest.param("one = multiprocessing.get_context('spawn').Lock()", id="a linked semaphore"),
        pytest.param("lock = context.Lock(); lock.acquire()", id="a lock that is held"),
        pytest.param(
            "number = os.memfd_create('it', os.MFD_ALLOW_SEALING); os.ftruncate(number, 9);"
            "fcntl.fcntl(number, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW); one = mmap.mmap(number, 9)",
            id="a file with seals",
        ),
        pytest.param(
            "number = os.memfd_create('it'); os.ftruncate(number, 9000);"
            "one = mmap.mmap(number, 4096)",
            id="a file of which a part is not mapped",
        ),
        pytest.param(
            "number = os.memfd_create('it'); os.ftruncate(number, 9000);"
            "one = mmap.mmap(number, 9000); os.ftruncate(number, 100)",
            id="a mapping longer than its file",
        ),
        pytest.param("one = mmap.mmap(-1, 65 << 20)", id="more than each child should copy"),
        pytest.param(
            "process = context.Process(target=time.sleep, args=(60,), daemon=True)\n"
            "process.start(); one = mmap.mmap(-1, 9)",
            id="a process may have it",
        ),
    ],
)
def test_memory_that_has_a_name_or_another_owner_is_a_hazard(run_program, named):
    out = run_program(PRELUDE + named + "\nprint(sorted(set(hazards()) - {'process'}))\n")
    assert out == "['shared-memory']\n"


def test_a_child_that_gets_no_memory_of_its_own_ends(run_program):
    out = run_program(
        PRELUDE
        + """
import resource
one = mmap.mmap(-1, 9)
one[0] = 1
assert hazards() == []
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 9))
print(children(lambda n: None, 1))
"""
    )
    assert out == "[71]\n"
