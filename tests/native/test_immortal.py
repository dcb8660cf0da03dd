"""immortalize(): what becomes immortal, what stays, and that reading then writes nothing."""

import sys

import pytest

from pasture import _native

DEBUG_BUILD = hasattr(sys, "gettotalrefcount")  # asserts that plain strings are mortal

HEAP = """
records = [{"id": i + 1000, "tags": [float(i), f"tag {i}"]} for i in range(60_000)]

def read_all():
    before = private_kib()
    for record in records:
        for key, value in record.items():
            held = (key, value)
        for tag in record["tags"]:
            held = tag
    return private_kib() - before
"""


@pytest.mark.immortality
@pytest.mark.skipif(DEBUG_BUILD, reason="strings stay mortal in a debug build")
@pytest.mark.kernel
def test_reading_every_object_in_a_child_leaves_its_page_shared(run_program):
    unsealed = int(run_program(f"{HEAP}\ngc.collect()\nin_child(read_all)"))
    sealed = int(run_program(f"{HEAP}\n_native.immortalize()\nin_child(read_all)"))
    assert unsealed > 10_000, "the heap is too small to show anything"
    assert sealed < 512


@pytest.mark.skipif(_native.HAS_IMMORTALITY, reason="this interpreter has immortal objects")
def test_an_interpreter_without_immortality_says_so():
    with pytest.raises(NotImplementedError, match="3.12"):
        _native.immortalize()


REACHED = {
    "element of a list": "[object()][0]",
    "string key of a dictionary": "next(iter({''.join(['ke', 'y one']): 1}))",
    "value in an untracked tuple": "make(lambda: ((1.5, ''.join('ab')),))[0]",
    "qualified name of a function": "function.__qualname__",
    "documentation of a function": "function.__doc__",
    "code of a function": "function.__code__",
    "constants of code": "function.__code__.co_consts",
    "one constant of code": "function.__code__.co_consts[-1]",
    "line table of code": "function.__code__.co_linetable",
    "exception table of code": "function.__code__.co_exceptiontable",
    "local names of code": "function.__code__.co_varnames",
    "file name of code": "function.__code__.co_filename",
    "nested code": "[c for c in function.__code__.co_consts if hasattr(c, 'co_code')][0]",
    "name of a class": "Klass.__name__",
    "resolution order of a class": "Klass.__mro__",
    "resolution order of a builtin class": "bool.__mro__",
    "bases of a builtin class": "bool.__bases__",
    "attribute name shared by instances": "next(iter(vars(instance)))",
    "attribute value of an instance": "instance.attribute_of_klass",
    "slot value": "slotted.slot",
    "name of a slot descriptor": "Slotted.__dict__['slot'].__name__",
    "cell of a closure": "closure.__closure__[0]",
    "value in a cell": "closure.__closure__[0].cell_contents",
    "module": "sys.modules['json']",
    "instance of a subclass of dict": "subdict",
    "key in a subclass of dict": "next(iter(subdict))",
    "member of a set": "next(iter(holder))",
    "weak reference": "weak",
    "bound method": "bound",
    "large integer in a tuple": "numbers[0]",
}

OBJECTS = """
import json, weakref
def make(f): return f()
def function(argument_name):
    "Documentation of this function"
    try:
        nested = lambda: 'inner'
        return [argument_name, nested, 123456789.5]
    except ValueError:
        return (b'constant bytes', 'some constant text')
class Klass: pass
instance = Klass(); instance.attribute_of_klass = float('2.5')
class Slotted: __slots__ = ('slot',)
slotted = Slotted(); slotted.slot = bytes([1, 2, 3])
def outer():
    captured = float('7.5')
    return lambda: captured
closure = outer()
class SubDict(dict): pass
subdict = SubDict({''.join(['sub', ' key']): 1})
holder = {''.join(['in a', ' set'])}
weak = weakref.ref(instance)
bound = instance.__init__
numbers = (10 ** 30, 2)
"""


@pytest.mark.immortality
def test_what_a_listed_object_refers_to_becomes_immortal(run_program):
    """Each in a child of its own, so that nothing but the list refers to it on its behalf."""
    out = run_program(f"""
{OBJECTS}
def probe(name, expression):
    probed = [eval(expression)]
    if {DEBUG_BUILD} and type(probed[0]) is str: probed = [None]
    gc.collect()
    _native.immortalize()
    return name, _native.is_immortal(probed[0])
for name, expression in {REACHED!r}.items(): in_child(lambda: probe(name, expression))
""")
    assert out.splitlines() == [f"{(name, True)}" for name in REACHED]


@pytest.mark.immortality
def test_a_suspended_generator_stays_mortal_and_still_cleans_up(run_program):
    out = run_program("""
        def generator():
            try:
                yield 1
            finally:
                print("cleaned up")
        suspended = generator(); next(suspended)
        counts = _native.immortalize()
        assert counts["left_mortal"] >= 1, counts
        print(_native.is_immortal(suspended))
        del suspended
        print("after")
    """)
    assert out == "False\ncleaned up\nafter\n"


@pytest.mark.immortality
def test_a_tuple_that_is_being_filled_can_still_be_cut_to_size(run_program):
    out = run_program("""
        def items():
            yield "first"
            _native.immortalize()
            yield from map(str, range(100))
        print(len(tuple(items())), len(tuple(zip(items(), range(3)))))
    """)
    assert out == "101 3\n"


@pytest.mark.immortality
def test_files_stay_mortal_and_are_flushed_when_dropped(run_program, tmp_path):
    out = run_program(f"""
        import tempfile
        class Derived(__import__("io").BufferedWriter): pass
        text = open({str(tmp_path / "text")!r}, "w"); text.write("kept")
        raw = open({str(tmp_path / "raw")!r}, "wb", buffering=0)
        derived = Derived(raw); derived.write(b"kept too")
        _native.immortalize()
        print([_native.is_immortal(file) for file in (text, text.buffer, raw, derived)])
        known = _native.files()
        print(text in known, derived in known, sys.stdout in known)
        del known, text, derived, raw
        print(open({str(tmp_path / "text")!r}).read(), open({str(tmp_path / "raw")!r}).read())
    """)
    assert out == "[False, False, False, False]\nTrue True True\nkept kept too\n"


@pytest.mark.immortality
def test_a_second_call_counts_only_what_came_since(run_program):
    out = run_program("""
        first = _native.immortalize()["objects"]
        again = _native.immortalize()["objects"]
        later = [[float(i)] for i in range(5000)]
        print(first > 3000, again < 200, 10_000 <= _native.immortalize()["objects"] < 10_200)
        print(_native.is_immortal(later[77][0]))
    """)
    assert out == "True True True\nTrue\n"


BETWEEN_SEALS = {
    "nothing": "pass",
    "a freeze": "young = [[] for _ in range(9)]; gc.freeze()",
    "an unfreeze": "gc.unfreeze()",
    "an unfreeze and a freeze": "young = [[] for _ in range(9)]; gc.unfreeze(); gc.freeze()",
    "a seal of nothing": "seal()",
}


@pytest.mark.immortality
@pytest.mark.skipif(DEBUG_BUILD, reason="strings stay mortal in a debug build")
@pytest.mark.parametrize("between", BETWEEN_SEALS)
def test_the_next_seal_takes_what_sealed_containers_have_got_since(run_program, between):
    out = run_program(f"""
        class Klass: pass
        instance, items, table = Klass(), [], {{}}
        def seal():
            _native.immortalize(); gc.freeze(); _native.unfreeze_mortal()
        def fill():
            instance.text = "".join(["te", "xt"])
            items.append((float("1.5"), [bytes(range(9))]))
            table["".join(["ke", "y"])] = lambda: instance
        seal()
        {BETWEEN_SEALS[between]}
        fill()
        seal()
        item = items[0]
        new = [instance.text, item, item[0], item[1], item[1][0], *table, table["key"]]
        print([_native.is_immortal(each) for each in new])
        print(gc.get_freeze_count() > 1000, all(map(gc.is_tracked, (items, table, item[1]))))
    """)
    assert out.splitlines() == [str([True] * 7), "True True"]


VIEWS = 'held = [memoryview(below) for below in (b"text", bytearray(9), array.array("i", [1]))]'


@pytest.mark.immortality
@pytest.mark.parametrize("then", ["pass", "held[0].release()", "held.clear()", "del held"])
def test_a_view_ends_after_the_builtin_collector_has_dropped_what_is_immortal(run_program, then):
    # From 3.14 on that collector takes what is immortal off its list.
    out = run_program(f"""
        import array
        def run():
            {VIEWS}
            _native.immortalize(); gc.freeze(); gc.unfreeze()
            gc.collect()
            {then}
            print("ran")
        run()
        {VIEWS}
        _native.immortalize(); gc.freeze(); gc.unfreeze()
        print("ends")
    """)
    assert out == "ran\nends\n"


@pytest.mark.immortality
@pytest.mark.kernel
def test_without_memory_for_the_walk_the_process_goes_on_and_can_repeat_it(run_program):
    out = run_program("""
        import resource
        deep = None
        for _ in range(3): deep = (deep, tuple(float(i) for i in range(50_000)))
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used, hard))
        try:
            _native.immortalize()
        except MemoryError:
            print("refused")
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        assert [].append(1) is None and gc.collect() >= 0
        print(_native.immortalize()["objects"] > 1000, _native.is_immortal(deep[1][5]))
    """)
    assert out == "refused\nTrue True\n"


@pytest.mark.immortality
def test_hashes_are_computed_ahead(run_program):
    out = run_program("""
        texts = [f"text number {i}" for i in range(3000)]
        print(_native.immortalize()["hashes"] >= 3000, _native.immortalize()["hashes"])
    """)
    assert out.split()[0] == "True"
    assert int(out.split()[1]) < 50


@pytest.mark.immortality
def test_a_sealed_process_finalizes_normally(run_program):
    out = run_program("""
        import asyncio, ctypes, datetime, decimal, email.message, enum, http.client, json
        import logging, multiprocessing, re, threading, typing, unittest, weakref
        import xml.etree.ElementTree, zoneinfo
        try: import sqlite3
        except ImportError: pass  # built without it
        class Noisy:
            def __del__(self): print("finalized")
        later = None
        _native.immortalize()
        gc.freeze()
        later = Noisy()
        print("end")
    """)
    assert out == "end\nfinalized\n"


@pytest.mark.immortality
def test_instances_made_in_a_child_do_not_count_on_the_shared_key_table(run_program):
    out = run_program("""
        class Point:
            def __init__(self): self.x = 1; self.y = 2
        points = [Point() for _ in range(100)]
        counts = _native.immortalize()
        assert counts["key_tables"] > 0
        more = [Point() for _ in range(1000)]
        for point in more: vars(point)
        del more, point
        extra = Point(); extra.z = 3
        print(vars(extra), vars(points[3]), gc.collect() >= 0)
    """)
    assert out == "{'x': 1, 'y': 2, 'z': 3} {'x': 1, 'y': 2} True\n"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="layouts start empty before CPython 3.13")
def test_more_instances_in_a_child_do_not_lower_the_room_in_the_key_table(run_program):
    out = run_program("""
        class Point:
            def __init__(self): self.x = 1; self.y = 2
        points = [Point() for _ in range(3)]
        late = points[0]
        _native.immortalize()
        late.another, late.yet_another = 3, 4
        more = [Point() for _ in range(40)]
        more[0].another = 5
        print(vars(late), vars(more[0]), vars(more[1]))
    """)
    assert out == (
        "{'x': 1, 'y': 2, 'another': 3, 'yet_another': 4} {'x': 1, 'y': 2, 'another': 5} "
        "{'x': 1, 'y': 2}\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 13), reason="versions are not given before CPython 3.13")
def test_functions_that_read_global_names_first_in_a_child_do_not_write_to_the_module(run_program):
    out = run_program("""
        import ctypes, types
        module = types.ModuleType("late")
        exec("value = 1\\ndef read(): return value", module.__dict__)
        [place] = [at for kind, name, at in _native.field_offsets() if name == "ma_keys"]
        _native.immortalize()
        def keys():
            address = id(module.__dict__) + place
            return ctypes.string_at(ctypes.c_void_p.from_address(address).value, 32)
        def child():
            before = keys()
            for _ in range(1000): module.read()
            same = keys() == before
            module.read.__globals__["another"] = 2
            return same, module.read(), keys() == before
        in_child(child)
    """)
    assert out == "(True, 1, False)\n"


LETS_GO = """
class Odd:
    def clear(self): pass
class OwnAttributes:
    x = None
    def __getattribute__(self, name): return object.__getattribute__(self, name)
    def __del__(self): self.x = None
class OwnSetting(OwnAttributes):
    __getattribute__ = object.__getattribute__
    def __setattr__(self, name, value): pass
class NoFunction:
    __del__ = print
class Sets:
    x = 1
    def __del__(self): self.x = None
class Clears:
    x = []
    def __del__(self): self.x.clear()
class ClearsByPython(Clears):
    x = Odd()
class ClearsOwn(Clears):
    def __init__(self): self.x = []
class SetsProperty:
    x = property(lambda self: None, lambda self, value: print(value))
    def __del__(self): self.x = None
class SetsSlot:
    __slots__ = ("x",)
    def __del__(self): self.x = None
"""


@pytest.mark.immortality
def test_what_only_lets_go_of_others_has_no_end_of_its_own(run_program):
    out = run_program(
        LETS_GO
        + """
print([one.__name__ for one in [*vars().values()]
       if isinstance(one, type) and one.__module__ == "__main__" and one is not Odd
       and not _native.type_has_end(one)])
"""
    )
    assert out == "['Sets', 'Clears', 'ClearsOwn', 'SetsSlot']\n"


@pytest.mark.immortality
def test_what_clears_an_attribute_by_code_in_python_has_an_end(run_program):
    out = run_program("""
class Clears:
    def __del__(self): self.x.clear()
class Asks(list):
    def __getattribute__(self, name): return super().__getattribute__(name)
plain, asks, by_dict = Clears(), Clears(), Clears()
plain.x, asks.x = [], Asks()
by_dict.__dict__ = {"x": Asks()}
_native.immortalize()
print([_native.is_immortal(one) for one in (plain, asks, by_dict)])
""")
    assert out == "[True, False, False]\n"


@pytest.mark.immortality
def test_many_owners_are_a_small_part_of_a_larger_heap(run_program):
    out = run_program("""
class Ends:
    def __del__(self): assert self
one = Ends()
owners = [[one] for _ in range(1500)]
others = [[n] for n in range(160_000)]
counts = _native.immortalize()
print(sum(map(_native.is_immortal, owners)), sum(map(_native.is_immortal, others)))
""")
    assert out == "0 160000\n"


@pytest.mark.immortality
def test_memory_that_its_owner_has_taken_back_by_hand_is_not_looked_at_again(run_program):
    out = run_program("""
import ctypes
mortal, unlisted = [1], [2]
_native.immortalize(); gc.freeze(); _native.unfreeze_mortal(); _native.note_frozen_files()
ctypes.c_long.from_address(id(mortal)).value = 1 << 20
for one in (mortal, unlisted): ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(one))
later = [mortal, unlisted]
_native.immortalize()
print(_native.is_immortal(later), mortal, unlisted)
""")
    assert out == "True [1] [2]\n"
