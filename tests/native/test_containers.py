"""Containers out of the collector's sight: registered functions are asked for their items."""

import importlib.util

import pytest

needs_numpy = pytest.mark.skipif(
    importlib.util.find_spec("numpy") is None, reason="numpy is not installed here"
)

HIDDEN = """
import ctypes
items = {}

def hide(owner, obj):
    # Only the count knows of it from here on: no list, no dictionary, no tp_traverse.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(obj))
    items.setdefault(id(owner), []).append(id(obj))

def shown(owner):
    return [ctypes.cast(address, ctypes.py_object).value for address in items.get(id(owner), ())]

class Box(bytes):
    __slots__ = ()

def box_of(make):
    box = Box(b"box")
    hide(box, make())
    return box

boxes = [box_of(lambda: float("1.5")), box_of(lambda: 10 ** int("30"))]
"""


@pytest.fixture
def run_hidden(run_program):
    return lambda source: run_program(HIDDEN + source)


@pytest.mark.immortality
def test_hidden_items_become_immortal_once_a_function_shows_them(run_hidden):
    out = run_hidden("""
_native.immortalize()
print([_native.is_immortal(item) for box in boxes for item in shown(box)])
_native.register_container(Box, shown)
later = [box_of(lambda: 2.5 ** 3)]
counts = _native.immortalize()
print(counts["containers"], [_native.is_immortal(shown(box)[0]) for box in later])
""")
    assert out == "[False, False]\n1 [True]\n"


@pytest.mark.immortality
def test_items_that_came_after_one_seal_are_found_by_the_next(run_hidden):
    out = run_hidden("""
_native.register_container(Box, shown)
_native.immortalize()
hide(boxes[0], float("2.5"))
_native.immortalize()
print([_native.is_immortal(item) for item in shown(boxes[0])])
""")
    assert out == "[True, True]\n"


@pytest.mark.immortality
def test_containers_in_containers_and_made_for_one_visit_are_followed(run_hidden):
    out = run_hidden("""
inner = box_of(lambda: float("3.5"))
def shown_and_more(box):
    yield from shown(box)
    if box != b"fresh":
        fresh = Box(b"fresh")          # nothing else holds it
        hide(fresh, float("4.5"))
        yield fresh
_native.register_container(Box, shown_and_more)
outer = box_of(lambda: inner)
counts = _native.immortalize()
print(_native.is_immortal(shown(inner)[0]), counts["containers_failed"])
import tempfile
with tempfile.TemporaryFile() as file:
    _native.write_snapshot(file.fileno())
""")
    assert out == "True 0\n"


@pytest.mark.immortality
@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('no')",
        "return 7",
        "yield from shown(box); raise ValueError('no')",
        "_native.register_container(Box, shown); yield from shown(box); raise OSError",
        "items.clear(); boxes.clear(); gc.collect(); raise LookupError",
    ],
)
def test_a_function_that_fails_is_reported_and_harms_nothing_else(run_hidden, body):
    out = run_hidden(f"""
seen = []
sys.unraisablehook = lambda found: seen.append(type(found.exc_value).__name__)
def broken(box):
    {body}
kept = [float("5.5")]
_native.register_container(Box, broken)
counts = _native.immortalize()
print(counts["containers_failed"] == len(seen) > 0, _native.is_immortal(kept[0]))
""")
    assert out == "True True\n"


@pytest.mark.immortality
@pytest.mark.parametrize(
    "body",
    [
        "signal.raise_signal(signal.SIGTERM); yield from shown(box)",
        "yield from shown(box); signal.raise_signal(signal.SIGTERM); yield 7",
        "items.clear(); boxes.clear(); gc.collect(); signal.raise_signal(signal.SIGTERM); yield 7",
    ],
)
def test_a_signal_that_comes_while_containers_are_asked_ends_the_walk(run_hidden, body):
    out = run_hidden(f"""
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
def interrupted(box):
    {body}
kept = [float("5.5")]
_native.register_container(Box, interrupted)
try:
    _native.immortalize()
except SystemExit as exit:
    print(exit.code, _native.is_immortal(kept[0]))
_native.register_container(Box, shown)
counts = _native.immortalize()
print(counts["containers_failed"])
""")
    assert out == "7 True\n0\n"


@pytest.mark.immortality
def test_the_child_of_a_handler_that_forks_leaves_while_containers_are_asked(run_hidden):
    out = run_hidden("""
import signal
def fork(*_):
    if os.fork() == 0: sys.exit()
    os.wait()
signal.signal(signal.SIGTERM, fork)
def interrupted(box):
    signal.raise_signal(signal.SIGTERM)
    yield from shown(box)
_native.register_container(Box, interrupted)
print(_native.immortalize()["containers_failed"])
""")
    assert out == "0\n"


@pytest.mark.immortality
@needs_numpy
def test_an_element_that_an_array_repeats_is_asked_for_once(run_program):
    out = run_program("""
import numpy
from pasture.sealing import containers
few = numpy.array([float(i) for i in range(6)], dtype=object)
windows = numpy.lib.stride_tricks.sliding_window_view(few, 3)
record = numpy.zeros(4, dtype=[("a", object), ("b", int)])
record["a"] = [float(i) for i in range(4)]
arrays = {
    "broadcast": numpy.broadcast_to(few, (10**9, 10**6, 6)),
    "one": numpy.broadcast_to(few[:1], 10**18),
    "windows": windows,
    "windows of windows": numpy.lib.stride_tricks.sliding_window_view(windows, 2, axis=1),
    "backwards": few[::-1], "steps": few[::2], "matrix": few.reshape(2, 3).T[::-1, ::-1],
    "none": few[:0], "zero dimensions": few[0:1].reshape(()),
    "record": numpy.broadcast_to(record, (10**9, 4))[:, ::-1],
}
for name, array in arrays.items():
    found = [one for one in containers._held_by_array(array) if type(one) is float]
    print(name, sorted(found))
counts = _native.immortalize()
""")
    assert (
        out
        == """\
broadcast [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
one [0.0]
windows [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
windows of windows [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
backwards [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
steps [0.0, 2.0, 4.0]
matrix [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
none []
zero dimensions [0.0]
record [0.0, 1.0, 2.0, 3.0]
"""
    )


@pytest.mark.immortality
def test_members_of_types_without_a_traverse_become_immortal(run_program):
    out = run_program("""
        import operator
        bounds = range(10 ** 20, 10 ** 21)
        entries = list(os.scandir("/proc/self/task"))
        held = [(bounds,), (entries[0],)]
        _native.immortalize()
        members = [bounds.start, bounds.stop]
        if not hasattr(sys, "gettotalrefcount"):  # there strings stay as they are
            members.append(entries[0].path)
        print(all(_native.is_immortal(member) for member in members))
    """)
    assert out == "True\n"


ARRAYS = """
import numpy
def text(i): return "te" + str(i)
class Own(numpy.ndarray):
    def __getitem__(self, key): raise TypeError("mine")
    flat = property(lambda self: [])
    dtype = None
structured = numpy.zeros(3, dtype=[("n", "i8"), ("o", "O"), ("in", [("p", "O", (2,))])])
structured["o"] = [text(i) for i in range(3)]
structured["in"]["p"][1, 1] = text(9)
plain = numpy.array([text(i) for i in range(100)], dtype=object)
strided = numpy.array([[text(i), text(-i)] for i in range(100)], dtype=object)[::7, 1]
own = numpy.array([text(1)], dtype=object).view(Own)
nothing = numpy.empty(3, dtype=object)
point = numpy.array(text(5), dtype=object)
masked = numpy.ma.array([text(1), text(2)], dtype=object, mask=[0, 1])
nested = numpy.empty(1, dtype=object); nested[0] = numpy.array([text(7)], dtype=object)
everything = [structured, plain, strided, own, nothing, point, masked, nested]
def probed():
    yield from plain
    yield from strided
    yield from structured["o"]
    yield structured["in"]["p"][1, 1]
    yield numpy.ndarray.view(own, numpy.ndarray)[0]
    yield point.item()
    yield from masked.data
    yield nested[0][0]
"""


@pytest.fixture
def run_arrays(run_program):
    return lambda source: run_program(ARRAYS + source)


@pytest.mark.immortality
@needs_numpy
def test_objects_in_numpy_arrays_of_every_kind_are_sealed(run_arrays):
    out = run_arrays("""
import pasture
report = pasture.seal()
assert report.sealed, report
[step] = [step for step in report.steps if step.name == "immortalize"]
sealed = [_native.is_immortal(item) for item in probed()]
print(step.counts["containers_failed"], all(sealed), len(sealed))
""")
    assert out == "0 True 124\n"


@pytest.mark.immortality
@needs_numpy
def test_arrays_of_strings_of_any_length_hold_no_objects(run_program):
    out = run_program("""
import numpy, pasture
if hasattr(numpy.dtypes, "StringDType"):  # numpy 2.0
    kind = numpy.dtypes.StringDType()
    texts = numpy.array(["text", "t" * 100], dtype=kind)
    mixed = numpy.zeros(2, dtype=[("o", "O"), ("n", "i8")])
    mixed["o"] = 10 ** int("30")
    step = pasture.seal().step("immortalize")
    print(step.counts["containers_failed"], _native.is_immortal(mixed["o"][0]), texts[1][:3])
else:
    print("0 True ttt")
""")
    assert out == "0 True ttt\n"


@needs_numpy
def test_the_snapshot_names_the_array_as_the_owner(run_arrays):
    out = run_arrays("""
import struct, tempfile
from pasture.sealing import containers
containers.hand_to_extension()
with tempfile.TemporaryFile() as file:
    _native.write_snapshot(file.fileno())
    file.seek(0)
    data = file.read()
records = [struct.unpack_from("<QQQIHH", data, i) for i in range(0, len(data), 32)]
at = {record[0]: record for record in records}
owned = [(plain, plain[50]), (point, point.item())]
print([records[at[id(item)][3]][0] == id(array) for array, item in owned])
""")
    assert out == "[True, True]\n"


def test_what_is_no_type_or_no_function_is_refused(run_program):
    run_program("""
        import pasture
        for wrong in ((7, list), (list, 7)):
            try:
                pasture.register_container(*wrong)
            except pasture.UsageError as error:
                assert "register_container" in error.hint
            else:
                raise SystemExit("accepted")
    """)


@pytest.mark.immortality
def test_an_item_that_ends_stays_mortal(run_hidden):
    out = run_hidden("""
class Ends:
    def __del__(self): print("ended")
boxes.append(box_of(Ends))
_native.register_container(Box, shown)
_native.immortalize()
print([_native.is_immortal(item) for box in boxes for item in shown(box)])
ctypes.pythonapi.Py_DecRef(ctypes.py_object(shown(boxes[-1])[0]))
""")
    assert out == "[True, True, False]\nended\n"


def test_an_owner_is_a_sample_of_its_type_that_holds_what_it_owns(run_program):
    out = run_program("""
held = object()
print(_native.register_owner(list, (held,), held), _native.register_owner(slice, slice(0), held))
print(_native.register_owner(slice, slice(held), held) is _native.HAS_IMMORTALITY)
print(_native.register_owner(slice, None, None) is _native.HAS_IMMORTALITY)  # known
""")
    assert out == "False False\nTrue\nTrue\n"


@pytest.mark.immortality
def test_each_type_has_a_function_of_its_own_and_a_type_of_no_box_any_more_has_none(run_hidden):
    out = run_hidden("""
class Crate(bytes): pass
class Plain(bytes): pass
class Small(Crate): pass
def shown_once(crate):
    Small.__bases__ = Plain,
    return shown(crate)
crates = [Small(b"one"), Small(b"two")]
for crate in crates: hide(crate, float("6.5"))
_native.register_container(Box, shown)
_native.register_container(Crate, shown_once)
print(_native.immortalize()["containers_failed"])
sealed = [_native.is_immortal(item) for box in (*boxes, *crates) for item in shown(box)]
print(sealed[:2], sorted(sealed[2:]))  # either crate is asked first
""")
    assert out == "0\n[True, True] [False, True]\n"


@pytest.mark.immortality
def test_a_tuple_that_code_in_c_is_filling_stays_mortal_though_a_container_shows_it(run_hidden):
    out = run_hidden("""
api = ctypes.pythonapi
api.PyTuple_New.restype = ctypes.py_object
api.PyObject_GC_UnTrack.argtypes = [ctypes.py_object]
filled = api.PyTuple_New(2)
whole = (filled, boxes)
for one in (filled, whole): api.PyObject_GC_UnTrack(one)
hide(boxes[0], whole)
del filled, whole, one
_native.register_container(Box, shown)
_native.immortalize()
whole = shown(boxes[0])[1]
print(_native.is_immortal(whole), _native.is_immortal(whole[0]))
""")
    assert out == "True False\n"
