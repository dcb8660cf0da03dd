"""Objects of cffi: handles, callbacks, buffers, destructors. Nothing is compiled."""

import pytest

FFI = """
import cffi
ffi = cffi.FFI()
ffi.cdef("typedef struct { int number; void *pointer; } pair;")
ffi.cdef("void qsort(void *, size_t, size_t, int (*)(const void *, const void *));")
C = ffi.dlopen(None)
class Box(bytearray):
    value = None
box_of = weakref.WeakKeyDictionary()
def hold(one, value): box_of[one]().value = value
def held(one): return box_of[one]().value
def remember(one, box): box_of[one] = weakref.ref(box); return one
"""

KINDS = {
    "handle": """
def make(): return ffi.new_handle([None])
def hold(one, value): ffi.from_handle(one)[0] = value
def held(one): return ffi.from_handle(one)[0]
""",
    "callback": """
way = []
def make():
    box = [None]
    def called(number):
        if number: box[0] = way.pop()
        else: way.append(box[0])
        return number
    return ffi.callback("int(int)", called)
def hold(one, value): way.append(value); assert one(1) == 1
def held(one): assert one(0) == 0; return way.pop()
""",
    "memory of another object": """
def make():
    box = Box(b"memory")
    return remember(ffi.from_buffer(box), box)
""",
    "destructor": """
def make():
    class Destructor:
        value = None
        def __call__(self, pointer): [[i] for i in range(3)]
    box = Destructor()
    return remember(ffi.gc(ffi.new("pair *", [7]), box), box)
""",
    "memory from an allocator": """
def make():
    box = Box(100)
    new = ffi.new_allocator(lambda size: remember(ffi.from_buffer(box), box), lambda pointer: None)
    return remember(new("pair *"), box)
""",
    "kept by a weak dictionary": """
kept = weakref.WeakKeyDictionary()
def make(): return ffi.new("pair *", [7])
def hold(one, value): kept[one] = value
def held(one): assert one.number == 7; return kept[one]
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_cffi_live_through_everything(live_through, generators, kind):
    live_through(FFI + KINDS[kind], [generators("cffi")], some=500, many=5000)


CALLS = {
    "directly": """
def call(function):
    results = []
    callback = ffi.callback("int()", lambda: results.append(function()) or 5)
    assert callback() == 5
    return results[0]
""",
    "by code in C": """
def call(function):
    results = []
    @ffi.callback("int(const void *, const void *)")
    def compare(one, other):
        if not results: results.append(function())
        one, other = (ffi.cast("int *", pointer)[0] for pointer in (one, other))
        return (one > other) - (one < other)
    numbers = ffi.new("int[]", [4, 2, 3, 1])
    C.qsort(numbers, 4, 4, compare)
    assert list(numbers) == [1, 2, 3, 4]
    return results[0]
""",
}


@pytest.mark.parametrize("way", CALLS)
def test_a_seal_inside_of_a_callback_of_cffi(seal_inside, generators, way):
    seal_inside(FFI + CALLS[way], [generators("cffi")])
