"""Which files the collector knows: the same with a note of the frozen ones as by walking."""

import sys

import pytest

KINDS = """
import io, tempfile
class Derived(io.BufferedWriter): __slots__ = ()
class Finalized(io.StringIO):
    def __del__(self): pass

def names():
    return sorted({type(file).__name__ for file in _native.files()})

def walked():
    # With an object before the frozen ones the note does not stand.
    gc.unfreeze()
    found = _native.files()
    gc.freeze()
    return found

folder = tempfile.TemporaryDirectory()
count = iter(range(1000))
def new(type=open):
    path = f"{folder.name}/{next(count)}"
    return open(path, "w") if type is open else type(open(path, "wb", buffering=0))
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(KINDS + source)


def test_noted_files_are_those_that_a_walk_finds(run):
    out = run("""
frozen = [new(), new(Derived), io.BytesIO(), Finalized(), io.FileIO(os.dup(1), "w")]
gc.collect(); gc.freeze()
before = _native.files()
_native.note_frozen_files()
noted = _native.files()
print(len(noted) == len(before), {*map(id, noted)} == {*map(id, before)}, len(noted) >= 8)
print("Derived" in names(), "Finalized" in names())
""")
    assert out == "True True True\nTrue True\n"


def test_a_file_whose_class_has_a_finalizer_of_its_own_stays_mortal_and_is_known(run):
    out = run("""
class Closing(io.BufferedWriter):
    def __del__(self): super().__del__()
class Layered(io.IOBase):  # without a `write` that would show it, too
    def __del__(self): pass
kept = [Finalized(), new(Closing), Layered()]
seal_objects(); gc.freeze()
print([_native.is_immortal(file) for file in kept], {*map(id, kept)} <= {*map(id, _native.files())})
""")
    assert out == "[False, False, False] True\n"


def test_an_archive_that_its_finalizer_closes_counts_as_a_file(run):
    out = run("""
import zipfile
class Closes:
    def close(self): pass
    def __del__(self): pass
class Writes(Closes):
    def write(self, data): pass
class Unfinished:
    def close(self): pass
    def write(self, data): pass
kept = [zipfile.ZipFile(io.BytesIO(), "w"), Writes(), Closes(), Unfinished()]
found = {*map(id, _native.files(False))}
print([id(one) in found for one in kept], _native.files(True) == [])
gc.freeze()
print([one in _native.files(True) for one in kept], len(_native.files(False)))
""")
    frozen_by_itself = "True" if sys.version_info >= (3, 14) else out.split()[4]
    assert out == (f"[True, True, False, False] {frozen_by_itself}\n[True, True, False, False] 0\n")


def test_the_lock_of_a_stream_shows_who_holds_it(run_program):
    out = run_program("""
import io, threading
from pasture.sealing import open_files

class Waits(io.RawIOBase):
    def writable(self): return True
    def write(self, data):
        print(_native.stream_lock(stream))
        inside.set(); go_on.wait()
        return len(data)

inside, go_on = threading.Event(), threading.Event()
stream = io.BufferedWriter(Waits())
stream.write(b"x")
writer = threading.Thread(target=stream.flush)
print(_native.stream_lock(stream))
open_files.learn_locks()
writer.start(); inside.wait()
print(_native.stream_lock(stream), _native.stream_lock(sys.stdout), _native.stream_lock(7))
in_child(lambda: _native.stream_lock(stream))
go_on.set(); writer.join()
print(_native.stream_lock(stream))
""")
    assert out == "0\n0\n1 0 0\n2\n0\n"


def test_a_noted_file_that_is_dropped_ends_and_is_written(run):
    out = run("""
file = new(); file.write("kept"); path = file.name
gc.freeze(); _native.note_frozen_files()
before = len(_native.files())
del file
print(open(path).read(), before - len(_native.files()))
""")
    assert out == "kept 3\n"


@pytest.mark.parametrize(
    "late", ["pass", "gc.collect()", "gc.freeze()", "gc.collect(); gc.freeze()"]
)
@pytest.mark.parametrize("then", ["pass", "gc.unfreeze()", "_native.note_frozen_files()"])
@pytest.mark.parametrize("last", ["pass", "gc.collect()", "gc.freeze()"])
def test_a_file_that_comes_after_the_note_is_found(run, late, then, last):
    out = run(f"""
gc.collect(); gc.freeze(); _native.note_frozen_files()
later = [new(), [new()]]
{late}
later.append([new()])
{then}
later.append([new()])
{last}
found = {{*map(id, _native.files())}}
print([id(file) in found for file in (later[0], later[1][0], later[2][0], later[3][0])])
print({{*map(id, walked())}} == found)
""")
    assert out == "[True, True, True, True]\nTrue\n"


def test_a_note_can_be_repeated_after_its_lists_were_sealed_and_collected(run):
    out = run("""
_native.note_frozen_files()
seal_objects(); gc.freeze(); gc.unfreeze()
gc.collect()  # takes immortal objects out of the collector's lists
gc.freeze(); _native.note_frozen_files()
later = new()
print({*map(id, _native.files())} == {*map(id, walked())}, later in _native.files())
""")
    assert out == "True True\n"


def test_what_a_program_puts_into_all_lists_does_no_harm(run):
    out = run("""
file = new()
gc.collect(); gc.freeze(); _native.note_frozen_files()
gc.unfreeze()
meddled = 0
for one in gc.get_objects():
    if type(one) is list and any(type(item) is __import__("weakref").ref for item in one):
        one.append(7); meddled += 1
gc.freeze()
found = _native.files()
_native.note_frozen_files()
print(meddled > 0, file in found, file in _native.files())
""")
    assert out == "True True True\n"


def test_a_child_finds_what_its_parent_has_noted_and_its_own(run):
    out = run("""
first = new()
seal_objects(); gc.freeze(); _native.note_frozen_files()
second = new()
def look():
    third = new()
    found = {*map(id, _native.files())}
    return [id(file) in found for file in (first, second, third, sys.stdout)]
in_child(look)
""")
    assert out == "[True, True, True, True]\n"


def test_a_note_spares_the_walk_through_the_frozen_heap(run):
    out = run("""
heap = [[] for _ in range(400_000)]
gc.collect(); gc.freeze()

def read_kib(work):
    # Memory that the work has touched.
    with open("/proc/self/clear_refs", "w") as file: file.write("1")
    work()
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Referenced"))
nothing = read_kib(lambda: None)
walked = read_kib(_native.files) - nothing
_native.note_frozen_files()
print(walked > 15_000, read_kib(_native.files) - nothing < walked / 4)
""")
    assert out == "True True\n"
