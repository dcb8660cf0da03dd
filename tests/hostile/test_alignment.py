"""Static objects stand at any multiple of 8: one-character strings, one-byte bytes, `()`.

A long container makes the collector remember what it holds by address and find it again. So do a
successor in a list, and an object whose count is watched.
"""

import sys

import pytest

CONTAINERS = {
    "characters": 'list("The quick brown fox jumps over the lazy dog; 0123456789 $%&@!? " * 1000)',
    "characters in a tuple": 'tuple("The quick fox; 0123456789 $%&@!? \\xe4\\xf6\\xfc" * 1800)',
    "characters as values": "{f'key {i}': chr(i % 256) for i in range(70_000)}",
    "identifiers": "(dir(str) + dir(type) + dir(int) + dir(BaseException)) * 350",
    "keywords of the interpreter": "sys.intern('__init__ __new__ __doc__ self').split() * 17_000",
    "bytes of length one": "[bytes([i % 256]) for i in range(70_000)]",
    "empty values": "[(), b'', '', frozenset(), 0, None, True, ...] * 9_000",
    "small integers": "[i % 260 - 5 for i in range(70_000)]",
    "builtin types": "[*vars(__builtins__).values()] * 500",
    "code and functions": "[f for m in list(sys.modules.values()) for f in vars(m).values()] * 30",
}

STEPS = {
    "seal": "pasture.seal()",
    "collect": "pasture.collect()",
    "install": "pasture.gc.install(); gc.collect(); in_child(gc.collect)",
    "seal and collect": "pasture.seal(); pasture.collect(); in_child(pasture.collect)",
}


# Each in a child of its own; the last name printed is that of the one that failed.
WALK = f"""
CONTAINERS, STEPS = {CONTAINERS!r}, {STEPS!r}
def make(name):
    print(name, flush=True)
    held = eval(CONTAINERS[name])
    types = [*map(type, held)]
    assert len(types) > 60_000, (name, len(types))
    return held, types
"""


def test_a_long_container_of_static_objects_is_walked(run_program):
    out = run_program(f"""
{WALK}
def walk(name, step):
    print(step, flush=True)
    held, types = make(name)
    garbage = [weakref.ref(cycle()) for _ in range(50)]
    exec(STEPS[step], globals())
    return [ref for ref in garbage if ref() is not None], types == [*map(type, held)]
for name in CONTAINERS:
    for step in STEPS:
        in_child(lambda: walk(name, step))
""")
    lines = out.splitlines()
    named = [line for line in lines if line in STEPS or line in CONTAINERS]
    assert named == [line for name in CONTAINERS for step in STEPS for line in (step, name)]
    assert lines.count("([], True)") == len(STEPS) * len(CONTAINERS)


def test_a_sealed_child_that_outgrows_the_sealed_heap_collects(run_program):
    out = run_program(f"""
{WALK}
pasture.seal()
def work(name):
    held, types = make(name)
    grown = [[i] for i in range(gc.get_freeze_count() + 2_000)]
    dead = [weakref.ref(cycle()) for _ in range(50)]
    gc.collect(); gc.collect()  # the second knows how many objects are left
    assert pasture.gc.history().from_roots, "the child is still small"
    return [ref for ref in dead if ref() is not None], types == [*map(type, held)]
for name in CONTAINERS:
    in_child(lambda: work(name))
""")
    assert out.splitlines() == [line for name in CONTAINERS for line in (name, "([], True)")]


PLACED = """
import zoo
def placed(offset):
    zoo.set_offset(offset)
    return zoo.Placed()
"""


def test_garbage_that_is_the_successor_of_a_live_object_is_found(run_program, build_extension):
    out = run_program(
        f"""
{PLACED}
gc.disable()
gc.collect()
kept, dead = [], []
for number in range(300):
    kept.append([number])  # stands before the next one in its list
    one = placed((4, 8, 12)[number % 3])
    node = Node()
    one.hold([one, node])
    dead.append(weakref.ref(node))
del one, node
pasture.collect()
assert pasture.gc.history().from_roots
print(sum(ref() is not None for ref in dead), len(kept))
""",
        path=[build_extension("zoo")],
    )
    assert out == "0 300\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
def test_what_lies_far_from_all_that_is_in_lists_is_sealed_unless_it_holds_what_ends(run_program):
    out = run_program("""
import ctypes
C, PRIVATE, FIXED = ctypes.CDLL(None), 0x22, 0x100000
C.mmap.restype = ctypes.c_void_p
class Ends:
    def __del__(self): os.getpid()
def far(place, held):
    one = (held,)
    ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(one))
    at = C.mmap(ctypes.c_void_p(place), ctypes.c_size_t(4096), 3, PRIVATE | FIXED, -1, 0) + 32
    ctypes.memmove(at, id(one), tuple.__basicsize__ + 8)
    other = ctypes.cast(at, ctypes.py_object).value
    for each in (one, other): ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    return other
held = [far(0x200000000000, [[1]]), far(0x280000000000, [[Ends()]])]
pasture.seal()
print([_native.is_immortal(one) for one in (*held, held[0][0], held[1][0])], held[0])
""")
    assert out == "[True, False, True, False] ([[1]],)\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are mortal before CPython 3.12")
def test_a_count_that_has_drifted_is_set_again(run_program, build_extension):
    out = run_program(
        f"""
{PLACED}
import oldabi
kept = [placed(offset) for offset in (0, 4, 8, 12) for _ in range(20)]
pasture.holds_memory(type(kept[0]))
kept += [[0], "a text of " + str(7), Node()]
assert pasture.seal().sealed and all(map(_native.is_immortal, kept))
sealed = [sys.getrefcount(one) for one in kept]
for one in kept: oldabi.take(one, 2**22)
moved = [sys.getrefcount(one) for one in kept]
_native.fix_counts()
print(moved != sealed, [sys.getrefcount(one) for one in kept] == sealed)
""",
        path=[build_extension("zoo"), build_extension("oldabi")],
    )
    assert out == "True True\n"
