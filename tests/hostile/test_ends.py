"""Objects whose end gives something back: sealed and dropped, each ends as it does without pasture.

The program makes each kind of object in each kind of holder, seals or does not, drops the holder in
a forked child and in the parent, and says whether what the object had was given back.
"""

import json

import pytest

ZOO = """
import array, asyncio, ctypes, fcntl, io, json, mmap, multiprocessing, os, pickle, queue, re, select
import selectors, shutil, socket, sqlite3, ssl, struct, subprocess, sys, tempfile, threading
import tokenize, weakref, zipfile
from multiprocessing import shared_memory
from contextlib import suppress

FOLDER = tempfile.mkdtemp()
NAMES = iter(range(10**6))

def path():
    return f"{FOLDER}/{next(NAMES)}"

def closed(fd):
    def look():
        try: os.fstat(fd)
        except OSError: return True
        return False
    return look

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def semaphores():
    with open("/proc/self/maps") as lines: return sum("/sem." in line for line in lines)

# Look whether there are fewer of these than before the object was dropped.
FEWER, FEWER_SEMAPHORES = descriptors, semaphores

def file():
    made = open(path(), "w")
    return made, closed(made.fileno())

def unbuffered_file():
    made = open(path(), "wb", buffering=0)
    return made, closed(made.fileno())

def written_file():
    where = path()
    made = open(where, "w")
    made.write("text")
    return made, lambda: open(where).read() == "text"

class Finalized(io.FileIO):
    def __del__(self): super().__del__()

def file_with_a_finalizer():
    made = Finalized(path(), "w")
    return made, closed(made.fileno())

def locked_file():
    where = path()
    made = open(where, "w")
    fcntl.flock(made, fcntl.LOCK_EX)
    return made, closed(made.fileno())

def pipe():
    r, w = multiprocessing.Pipe()
    return r, closed(r.fileno())

def end_of_pipe():
    # The other process has it, too: what is asked is whether this one still holds it.
    r, w = os.pipe()
    return os.fdopen(w, "w"), closed(w)

def sockets():
    made, other = socket.socketpair()
    return made, closed(made.fileno())

def poll():
    made = select.epoll()
    return made, closed(made.fileno())

def selector():
    made = selectors.DefaultSelector()
    return made, closed(made.fileno())

def event_loop():
    return asyncio.new_event_loop(), FEWER

def listing():
    os.mkdir(folder := path())
    for name in "abc": open(f"{folder}/{name}", "w").close()
    made = os.scandir(folder); next(made)
    return made, FEWER

def memory_map():
    with open(path(), "w+b") as below:
        below.truncate(4096)
        return mmap.mmap(below.fileno(), 4096), FEWER

def database():
    made = sqlite3.connect(path())
    made.execute("create table t (a)"); made.commit()
    return made, FEWER

def cursor():
    where = path()
    made = sqlite3.connect(where)
    made.executescript("create table t (a); insert into t values (1), (2), (3)")
    rows = made.execute("select a from t"); next(rows)
    def look():
        # A cursor in the middle of its rows holds a lock against those who write.
        other = sqlite3.connect(where, timeout=0)
        try: other.execute("begin exclusive")
        except sqlite3.OperationalError: return False
        return True
    return rows, look

def archive():
    made = zipfile.ZipFile(where := path(), "w")
    made.writestr("a", "text")
    def look():
        try: return zipfile.ZipFile(where).read("a") == b"text"
        except zipfile.BadZipFile: return False
    return made, look

def temporary_file():
    made = tempfile.NamedTemporaryFile()
    return made, lambda name=made.name: not os.path.exists(name)

def temporary_folder():
    made = tempfile.TemporaryDirectory()
    return made, lambda name=made.name: not os.path.exists(name)

def shared():
    made = shared_memory.SharedMemory(create=True, size=4096)
    made.unlink()
    return made, FEWER

def lock_between_processes():
    return multiprocessing.get_context("fork").Lock(), FEWER_SEMAPHORES

def queue_between_processes():
    return multiprocessing.get_context("fork").SimpleQueue(), FEWER_SEMAPHORES

def key_log():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.keylog_filename = path()
    return made, FEWER

def tokens():
    with open(where := path(), "w") as below: below.write("a = 1\\n" * 10)
    below = open(where, "rb")
    made = tokenize.tokenize(below.readline); next(made), next(made)
    return made, closed(below.fileno())

def grows(data):
    def look():
        try: data.extend(data[:1] * 100)
        except BufferError: return False
        return True
    return look

def view():
    below = bytearray(100)
    return memoryview(below)[2:50], grows(below)

def view_of_array():
    below = array.array("d", range(100))
    return memoryview(below), grows(below)

def view_of_map():
    below = mmap.mmap(-1, 4096)
    def look():
        try: below.close()
        except BufferError: return False
        return True
    return memoryview(below)[10:20], look

def view_of_shared():
    below = shared_memory.SharedMemory(create=True, size=4096)
    below.unlink()
    def look():
        try: below.close()
        except BufferError: return False
        return True
    return below.buf[:10], look

def view_of_stream():
    below = io.BytesIO(b"text")
    def look():
        try: below.truncate(0)
        except BufferError: return False
        return True
    return below.getbuffer(), look

def structure():
    below = bytearray(100)
    return (ctypes.c_char * 10).from_buffer(below), grows(below)

def part_of_a_structure():
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int * 2), ("b", ctypes.c_int)]
    below = bytearray(100)
    return Pair.from_buffer(below).a, grows(below)

def pickled_buffer():
    below = bytearray(100)
    return pickle.PickleBuffer(below), grows(below)

def unpacking():
    below = bytearray(100)
    made = struct.iter_unpack("i", below); next(made)
    return made, grows(below)

def matches():
    below = bytearray(b"abc" * 10)
    made = re.finditer(b"a", below); next(made)
    return made, grows(below)

def numbers():
    import numpy
    below = bytearray(800)
    return numpy.frombuffer(below)[3:50].reshape(-1, 1), grows(below)

def ended():
    happened = []
    return happened, lambda: happened == [1]

class WithDel:
    def __init__(self, happened): self.happened = happened
    def __del__(self): self.happened.append(1)

def finalizer():
    happened, look = ended()
    return WithDel(happened), look

class Derived(WithDel): __slots__ = ()

def inherited_finalizer():
    happened, look = ended()
    return Derived(happened), look

class Plain: pass

class ClearsItself(WithDel):
    def clear(self): self.happened.append(1)
    def __del__(self): self.clear()

def finalizer_that_calls_its_own_clear():
    happened, look = ended()
    return ClearsItself(happened), look

class ClearsOther(WithDel):
    def __init__(self, happened): self.other = Cleared(); self.other.happened = happened
    def __del__(self): self.other.clear()

class Cleared:
    def clear(self): self.happened.append(1)

def finalizer_that_clears_a_container_written_in_python():
    happened, look = ended()
    return ClearsOther(happened), look

class HasProperty:
    @property
    def held(self): pass
    @held.setter
    def held(self, value): self.happened.append(1)
    @held.deleter
    def held(self): self.happened.append(1)

class SetsProperty(HasProperty, WithDel):
    def __del__(self): self.held = None

def finalizer_that_sets_a_property():
    happened, look = ended()
    return SetsProperty(happened), look

class DeletesProperty(HasProperty, WithDel):
    def __del__(self): del self.held

def finalizer_that_deletes_a_property():
    happened, look = ended()
    return DeletesProperty(happened), look

class SetsAttribute(WithDel):
    def __setattr__(self, name, value):
        if value is None: self.happened.append(1)
        else: super().__setattr__(name, value)
    def __del__(self): self.other = None

def finalizer_that_sets_an_attribute_of_its_own_kind():
    happened, look = ended()
    return SetsAttribute(happened), look

class SetsOther(WithDel):
    def __init__(self, happened): self.other = HasProperty(); self.other.happened = happened
    def __del__(self): self.other.held = None

def finalizer_that_sets_a_property_of_another():
    happened, look = ended()
    return SetsOther(happened), look

def weak_finalizer():
    happened, look = ended()
    made = Plain()
    weakref.finalize(made, happened.append, 1)
    return made, look

REFERENCES = []

def weak_callback():
    happened, look = ended()
    made = Plain()
    REFERENCES.append(weakref.ref(made, lambda _: happened.append(1)))
    return made, look

def weak_callback_written_in_c():
    happened = []
    made = Plain()
    REFERENCES.append(weakref.ref(made, happened.append))
    return made, lambda: len(happened) == 1

def weak_callback_into_a_queue():
    happened = queue.SimpleQueue()
    made = Plain()
    REFERENCES.append(weakref.ref(made, happened.put))
    return made, lambda: happened.qsize() == 1

def weak_finalizer_in_a_cycle():
    happened, look = ended()
    made = Plain(); made.itself = made
    weakref.finalize(made, happened.append, 1)
    made.more = weakref.WeakSet([made]), weakref.WeakKeyDictionary({made: 1})
    return made, look

def local_function():
    happened, look = ended()
    def made(): pass
    weakref.finalize(made, happened.append, 1)
    return made, look

def multiprocessing_finalizer():
    from multiprocessing import util
    happened, look = ended()
    made = Plain()
    util.Finalize(made, happened.append, (1,))
    return made, look

def held_for_a_thread():
    happened, look = ended()
    made = threading.local()
    made.held = WithDel(happened)
    return made, look

def generator():
    happened, look = ended()
    def run():
        try: yield
        finally: happened.append(1)
    made = run(); next(made)
    return made, look

def coroutine():
    happened, look = ended()
    class Wait:
        def __await__(self): yield
    async def run():
        try: await Wait()
        finally: happened.append(1)
    made = run(); made.send(None)
    return made, look

def nothing_that_ends():
    return Plain(), lambda: True

KINDS = [file, unbuffered_file, written_file, file_with_a_finalizer, locked_file, pipe, end_of_pipe,
    sockets, poll, selector, event_loop, listing, memory_map, database, cursor, archive,
    temporary_file, temporary_folder, shared, lock_between_processes, queue_between_processes,
    key_log, tokens, held_for_a_thread, view, view_of_array, view_of_map, view_of_shared,
    view_of_stream, structure, part_of_a_structure, pickled_buffer, unpacking, matches, finalizer,
    inherited_finalizer, finalizer_that_calls_its_own_clear,
    finalizer_that_clears_a_container_written_in_python, finalizer_that_sets_a_property,
    finalizer_that_deletes_a_property, finalizer_that_sets_an_attribute_of_its_own_kind,
    finalizer_that_sets_a_property_of_another, weak_finalizer, weak_callback,
    weak_callback_written_in_c, weak_callback_into_a_queue, weak_finalizer_in_a_cycle,
    local_function, multiprocessing_finalizer,
    generator, coroutine, nothing_that_ends]
with suppress(ImportError):
    import numpy
    KINDS.append(numbers)

# Only the collector ends these.
IN_CYCLES = {"selector", "event_loop", "database", "weak_finalizer_in_a_cycle"}

class Slots:
    __slots__ = ("held",)

class Named(dict): pass

def attribute(held):
    made = Plain(); made.held = held
    return made
def attribute_in_a_dictionary(held):
    made = Plain(); made.held = held; made.__dict__
    return made
def slot(held):
    made = Slots(); made.held = held
    return made
def default(held):
    def made(held=held): pass
    return made
def closure(held):
    def made(): return held
    return made
def suspended(held):
    def run(held):
        yield held
    made = run(held); del held; next(made)
    return made
def caught(held):
    try: raise ValueError(held)
    except ValueError as error: return error.with_traceback(None)

HOLDERS = [lambda held: held, lambda held: [held], lambda held: (held, "a"),
    lambda held: {"a": held}, lambda held: Named(a=held), attribute, attribute_in_a_dictionary,
    slot, default, closure, suspended, caught, lambda held: iter([held]),
    lambda held: attribute([{"a": (held, slot(attribute))}]),
    lambda held: [attribute(slot(held))] * 3]
MAIN = os.getpid()

def make_all():
    made = {}
    for kind in KINDS:
        for i, hold in enumerate(HOLDERS):
            thing, look = kind()
            made[f"{kind.__name__} {i}"] = [hold(thing)], look
            del thing
    return made

def drop_all(made):
    found = {}
    for name in list(made):
        held, look = made.pop(name)
        fewer = look in (FEWER, FEWER_SEMAPHORES)
        before = look() if fewer else 0
        held.clear()
        if name.split()[0] in IN_CYCLES: collect()
        found[name] = look() < before if fewer else look()
    return found

if not WORDS: gc.freeze()  # what has been imported is no garbage: each collection would look at it
IN_CHILD, IN_PARENT = make_all(), make_all()
collect = gc.collect
if "seal" in WORDS:
    import pasture
    for _ in range(WORDS.count("seal")):
        report = pasture.seal()
        assert report.sealed or not _native.HAS_IMMORTALITY, report.reason
    if not _native.HAS_IMMORTALITY:
        # Nothing is known of ends: garbage in cycles is frozen, as gc.freeze alone leaves it.
        collect = lambda: pasture.collect(frozen=True)
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    with os.fdopen(w, "w") as out: json.dump(drop_all(IN_CHILD), out)
    os._exit(0)
os.close(w)
with os.fdopen(r) as answer: in_child = json.load(answer)
assert os.waitpid(pid, 0)[1] == 0
print(json.dumps([in_child, drop_all(IN_PARENT)]))
shutil.rmtree(FOLDER)
"""


def dropped(run_program, *words):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
    return json.loads(run_program(f"{limit}WORDS = {words!r}\n{ZOO}"))


def test_a_dropped_object_gives_back_after_the_seal_what_it_gives_back_without(run_program):
    in_child, in_parent = dropped(run_program)
    assert all(in_parent.values())  # else the zoo shows nothing
    for words in (("seal",), ("seal", "seal")):
        assert dropped(run_program, *words) == [in_child, in_parent]


@pytest.mark.parametrize("at", [3, 9, 10, 24, 25, 42])
def test_a_tuple_that_is_being_filled_during_the_seal_can_still_grow(run_program, at):
    out = run_program(f"""
def item(i):
    if i == {at}: pasture.seal()
    return [i]
print(sum(map(len, tuple(item(i) for i in range(60)))))
""")
    assert out == "60\n"


def test_pools_of_a_program_that_seals_for_each_leave_no_descriptor_open(run_program):
    out = run_program("""
import multiprocessing, concurrent.futures
context = multiprocessing.get_context("fork")
def descriptors(): return len(os.listdir("/proc/self/fd"))
def batch():
    with context.Pool(1) as pool:
        pasture.seal()
        pool.map(abs, range(2)); pool.close(); pool.join()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        list(pool.map(abs, range(2)))
        pasture.seal()
    ours, theirs = context.Pipe()
    pasture.seal()
    process = context.Process(target=theirs.send, args=(1,)); process.start(); del theirs
    ours.recv(); process.join()
    try: ours.recv()
    except EOFError: return
batch(); gc.collect(); before = descriptors()
for _ in range(4): batch()
gc.collect()
print(descriptors() - before)
""")
    assert out == "0\n"


THREADS = """
import threading, time
def address_mib():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmSize"))
threading.stack_size(8 << 20)
SEALS and pasture.seal()
before = address_mib()
threads = [threading.Thread(target=int) for _ in range(64)]
for thread in threads: thread.start()
while threading.active_count() > 1: time.sleep(0.01)
SEALS and pasture.seal()
del thread, threads
# The system library keeps some 40 MiB of stacks for threads to come.
print(address_mib() - before < 128)
"""


@pytest.mark.parametrize("seals", [False, True])
def test_threads_that_were_never_joined_give_back_their_stacks_when_they_are_dropped(
    run_program, seals
):
    program = f"SEALS = {seals}\n{THREADS}"
    # Else each thread takes addresses for memory of its own, too.
    assert run_program(program, env={"MALLOC_ARENA_MAX": "1"}) == "True\n"


@pytest.mark.immortality
def test_a_seal_that_finds_nothing_new_keeps_little_memory(run_program):
    out = run_program("""
def anonymous_kib():
    # A page of a library becomes private when another process that maps it ends.
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous"))
for _ in range(5): pasture.seal()
before = anonymous_kib()
for _ in range(40): pasture.seal()
print(anonymous_kib() - before)
""")
    assert int(out) < 40 * 30


@pytest.mark.immortality
def test_holes_are_plugged_again_when_much_is_new_and_in_a_child(run_program):
    out = run_program("""
def plugged():
    counts = {step.name: step.counts for step in pasture.seal().steps}
    return counts["plug-pymalloc"].get("blocks", 0) > 0
first, second = plugged(), plugged()
new = [[i] for i in range(5000)]
print(first, second, plugged(), plugged())
in_child(plugged)
""")
    assert out == "True False True False\nTrue\n"


SEALED = """
class LetsGo:
    def __init__(self): self.cache, self.other = {}, None
    def __del__(self):
        self.cache.clear()
        self.other = None
        del self.cache
class Fields:
    def __get__(self, instance, owner): return {}
class LetsGoOfFields:
    fields = Fields()
    def __init__(self): self.fields = {"other": Holds(1)}
    def __del__(self): self.fields.clear()
class LetsGoOfSlots:
    __slots__ = ("items",)
    def __init__(self): self.items = []
    def __del__(self): self.items.clear(); self.items = None
class Calls(LetsGo):
    def __del__(self): self.cache.pop(1, None)
class Holds:
    def __init__(self, held): self.held = held
def function(): pass
import weakref
weakref.finalize(function, id, 1)
kept = weakref.WeakValueDictionary(a=(plain := Holds(1)))
all = [LetsGo(), Holds(LetsGo()), Calls(), Holds(Calls()), function, plain]
all += [LetsGoOfFields(), LetsGoOfSlots()]
shared = Holds(Calls()); many = [shared] * 20; holder = Holds(many[0])
pasture.seal()
print([_native.is_immortal(one) for one in all], _native.is_immortal(holder))
"""


@pytest.mark.immortality
def test_what_only_lets_go_of_others_is_sealed_and_so_is_what_many_objects_hold(run_program):
    out = run_program(SEALED)
    assert out == "[True, True, False, False, True, True, True, True] True\n"


@pytest.mark.immortality
def test_a_file_at_the_root_of_a_graph_leaves_only_what_is_near_mortal_and_says_so(run_program):
    out = run_program("""
import pickle
class Node:
    def __init__(self, parent, depth):
        self.parent = parent
        self.children = [Node(self, depth - 1) for _ in range(3)] if depth else []
root = Node(None, 8)
below = bytearray(100)
root.log, root.buffer = open(os.devnull), pickle.PickleBuffer(below)
far = Node(None, 0); far.held = [[[root.children[0].children[0]]]]
class Ends:
    def __del__(self): print("ended")
beside = Node(None, 0); beside.held = [{"a": [[Ends()]]}]
step = pasture.seal().step("immortalize")
print(step.counts["left_mortal"] < 200, step.counts["owners_left_out"], step.problems, step.note)
near, deep = root.children[0], root.children[0].children[0].children[0].children[0]
print([_native.is_immortal(one) for one in (root.log, root.buffer, root, near, deep, far)])
def close():
    held = root.log.fileno()
    root.log = root.buffer = None
    below.append(1)
    return os.path.exists(f"/proc/self/fd/{held}")
in_child(close)
del beside
""")
    note = "objects that own open files or sockets stay private; 3 levels of their owners, too"
    assert out == f"True 1 () {note}\n[False, False, False, False, True, True]\nFalse\nended\n"


def test_many_objects_that_are_each_owned_by_few_all_end(run_program):
    out = run_program("""
ended = []
class Ends:
    def __del__(self): ended.append(1)
class Holder:
    def __init__(self): self.held = [{"a": Ends()}]
holders = [Holder() for _ in range(2000)]
report = pasture.seal()
holders.clear()
print(len(ended), report.warnings)
""")
    assert out == "2000 ()\n"


@pytest.mark.immortality
def test_a_datetime_without_a_time_zone_owns_nothing_that_freed_memory_behind_it_names(run_program):
    out = run_program("""
from datetime import datetime
class Ends:
    def __del__(self): print("ended")
ends = Ends()
# The same size for pymalloc; the words where a time zone would be are left there when it is freed.
before = datetime.__basicsize__ - 8 - (bytes.__basicsize__ - 1)
freed = [bytes(before) + id(ends).to_bytes(8, "little")[:7] for _ in range(500)]
del freed
kept = [datetime(2000, 1, 1) for _ in range(500)]
assert pasture.seal().sealed
print(sum(map(_native.is_immortal, kept)), _native.is_immortal(ends))
""")
    assert out == "500 False\nended\n"


@pytest.mark.immortality
def test_of_too_many_owners_those_near_and_those_in_a_chain_stay_mortal(run_program):
    out = run_program("""
class Ends:
    def __del__(self): os.getpid()
shared, chain = Ends(), Ends()
of_many = [[shared] for _ in range(5000)]
for _ in range(15): chain = [chain]
print(pasture.seal().step("immortalize").counts["owners_left_out"])
print(_native.is_immortal(shared), _native.is_immortal(of_many[0]))
one, far = chain, 0
while type(one) is list:
    far += _native.is_immortal(one)
    one = one[0]
print(far, _native.is_immortal(one))
""")
    assert out == "1\nFalse True\n5 False\n"


@pytest.mark.immortality
def test_owners_of_owners_are_left_out_where_they_are_too_many_again(run_program):
    out = run_program("""
class Ends:
    def __del__(self): os.getpid()
near = [[one] for one in [Ends() for _ in range(300)] for _ in range(3)]
far = [[one] for one in near for _ in range(2)]
print(pasture.seal().step("immortalize").counts["owners_left_out"])
print([sum(map(_native.is_immortal, each)) for each in (near, far)])
""")
    assert out == "1\n[0, 1800]\n"
