"""The snapshot: every object is in it, where it is, with its type and the way to it."""

import pytest

READ = """
import struct, tempfile
def snapshot():
    with tempfile.TemporaryFile() as file:
        count = _native.write_snapshot(file.fileno())
        file.seek(0)
        data = file.read()
    assert len(data) == 32 * count
    return [struct.unpack_from("<QQQIHH", data, i) for i in range(0, len(data), 32)]
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(READ + source)


def test_objects_of_the_collector_are_recorded_once_with_their_types(run):
    run("""
kept = [[i] for i in range(1000)]
there = gc.get_objects()
records = snapshot()
objects = {r[0]: r for r in records if r[4] == 0}
assert len(objects) == sum(1 for r in records if r[4] == 0)
def check():
    # Local names: a global one that holds a lazy import (3.15) becomes what it imports when read.
    for o in there:
        assert id(o) in objects, o
        assert objects[id(o)][1] == id(type(o)), o
check()
""")


def test_an_owner_stands_before_what_it_owns_and_leads_to_a_root(run):
    run("""
import types
module = types.ModuleType("meadow")
module.answer = ["grass"]
sys.modules["meadow"] = module
records = snapshot()
number = {r[0]: i for i, r in enumerate(records)}
at, way = number[id(module.answer)], []
while at != 0xFFFFFFFF:
    way.append(records[at][0])
    assert records[at][3] == 0xFFFFFFFF or records[at][3] < at
    at = records[at][3]
assert way == [id(module.answer), id(vars(module)), id(module), id(sys.modules)]
""")


def test_storage_of_containers_is_recorded_with_its_size(run):
    run("""
import ctypes
numbers, table, bag = list(range(5000)), {str(i): i for i in range(5000)}, set(range(5000))
pointer = lambda o, offset: ctypes.c_size_t.from_address(id(o) + offset).value
records = {r[0]: r for r in snapshot() if r[4]}
items = records[pointer(numbers, 24)]
assert items[4] == 3 and items[2] >= 8 * 5000
keys = records[pointer(table, dict.__basicsize__ - 16)]
assert keys[4] == 1 and abs(keys[2] - (sys.getsizeof(table) - dict.__basicsize__ - 16)) <= 16
slots = records[pointer(bag, 40)]
assert slots[4] == 4 and slots[2] >= 16 * 5000
""")


def test_sizes_are_at_least_what_objects_say_and_pieces_do_not_overlap(run):
    run("""
text, number, row = "x" * 777, 1 << 3000, tuple(range(50))
records = sorted((r[0] - r[5], r[0] + r[2], r) for r in snapshot())
by_address = {r[2][0]: r[2] for r in records}
for o, header in ((text, 0), (number, 0), (row, 16)):
    r = by_address[id(o)]
    assert sys.getsizeof(o) - 16 <= r[2] + r[5] <= sys.getsizeof(o) + 16, (o, r)
overlapping = sum(a[1] > b[0] for a, b in zip(records, records[1:]))
assert overlapping < len(records) / 1000, overlapping
""")


def test_writing_a_snapshot_leaves_reference_counts_as_they_were(run):
    run("""
things = [object(), [], {}, type("Sheep", (), {})]
before = [sys.getrefcount(o) for o in things]
snapshot()
assert [sys.getrefcount(o) for o in things] == before
""")


def test_a_file_that_cannot_be_written_is_an_error(run_program):
    run_program("""
try:
    _native.write_snapshot(os.open("/dev/full", os.O_WRONLY))
except OSError as error:
    assert "No space left" in str(error)
else:
    raise AssertionError("nothing was raised")
""")


def test_a_signal_that_comes_while_a_reader_is_late_loses_nothing(run_program):
    out = run_program("""
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
below, above = os.pipe()
os.set_blocking(above, False)
held = 0
try:
    while True: held += os.write(above, bytes(4096))
except BlockingIOError:
    os.set_blocking(above, True)
sent, pid = os.getpid(), os.fork()
if pid == 0:
    import time
    os.close(above)
    for _ in range(20): os.kill(sent, signal.SIGALRM); time.sleep(0.01)
    read = 0
    while part := len(os.read(below, 1 << 16)): read += part
    print(read > held, read % 8, flush=True)
    os._exit(0)
os.close(below)
_native.write_snapshot(above)
os.close(above)
os.waitpid(pid, 0)
""")
    assert out == "True 0\n"
