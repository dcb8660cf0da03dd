"""Types of extensions that give back something and show nothing of it (extensions/foreign.c).

Their objects stay mortal, with their owners, unless the type is known to hold memory alone.
"""

import json

import pytest

PRELUDE = """
import foreign, json
def held_by(kind, held=None):
    below = bytearray(100)
    return below, kind(below, held)
def grows(below):
    try: below.append(0)
    except BufferError: return False
    return True
class InPython(foreign.Holder): pass
class WithSlots(foreign.Derived): __slots__ = ("more",)
KINDS = [foreign.Holder, foreign.Derived, foreign.Frees, foreign.Box, InPython, WithSlots,
    foreign.named("foreign.heap")]
"""

pytestmark = pytest.mark.immortality


@pytest.fixture
def run(run_program, build_extension):
    return lambda source: run_program(PRELUDE + source, path=[build_extension("foreign")])


def test_objects_of_unknown_types_of_extensions_give_back_what_they_hold(run):
    out = run("""
pairs = [held_by(kind) for kind in KINDS]
holders = [[{"a": (made,)}] for _, made in pairs]
below = [one for one, _ in pairs]
del pairs
report = pasture.seal()
before = list(map(grows, below))
holders.clear()
print(before, list(map(grows, below)), report.mortal_types)
""")
    assert out == f"{[False] * 7} {[True] * 7} ()\n"


def test_a_registered_type_vouches_for_its_bases_and_for_what_adds_no_end_to_it(run):
    out = run("""
pasture.holds_memory(foreign.Derived)
pasture.holds_memory(InPython)
made = [held_by(kind) for kind in KINDS]
pasture.seal()
print([_native.is_immortal(one) for _, one in made])
pasture.holds_memory(foreign.Holder)
pasture.seal()
print([_native.is_immortal(one) for _, one in made])
""")
    _, derived, frees, box, in_python, with_slots, heap = range(7)
    first, second = map(json.loads, out.lower().splitlines())
    assert [i for i, sealed in enumerate(first) if sealed] == [derived, in_python, with_slots]
    assert [i for i, sealed in enumerate(second) if not sealed] == [frees, box, heap]


def test_an_object_of_a_registered_type_stays_mortal_where_it_owns_a_file(run):
    out = run("""
pasture.holds_memory(foreign.Holder)
_, made = held_by(foreign.Holder, [open(os.devnull)])
other = held_by(foreign.Holder, [b"text"])
descriptor = foreign.held(made)[0].fileno()
pasture.seal()
print(_native.is_immortal(made), _native.is_immortal(other[1]))
del made
print(os.path.exists(f"/proc/self/fd/{descriptor}"))
""")
    assert out == "False True\nFalse\n"


def test_listed_names_are_those_of_types_written_in_c(run):
    out = run("""
class Named(foreign.Holder): pass
Named.__name__ = "fortran"
kinds = [foreign.named("numpy.generic"), foreign.named("sqlalchemy.cyextension.row"),
    foreign.named("numpy.generics"), foreign.named("Struct"), Named]
made = [held_by(kind) for kind in kinds]
pasture.seal()
print([_native.is_immortal(one) for _, one in made])
print(all(name and reason for name, _, reason in _native.memory_types()))
""")
    assert out == "[True, True, False, False, False]\nTrue\n"


def test_types_with_many_objects_are_named_with_what_they_cost(run):
    out = run("""
made = [held_by(kind) for kind in [InPython] * 600 + [foreign.Derived] * 500 + [foreign.Box] * 1000]
report = pasture.seal()
print(json.dumps([report.as_dict()["mortal_types"], report.step("immortalize").note]))
""")
    types, note = json.loads(out)
    assert [(one["name"], one["objects"]) for one in types] == [("foreign.Holder", 1100)]
    assert 1100 * 40 <= types[0]["bytes"] <= 1100 * 100
    assert "1,100 foreign.Holder" in note
    assert "pasture.holds_memory" in note


def test_items_of_a_container_that_stays_mortal_are_sealed(run):
    out = run("""
boxes = [held_by(foreign.Box, 10 ** int("30"))[1]]
more = [held_by(foreign.Box, 10 ** int("31"))[1]]
kept = [foreign.held(boxes[0]), foreign.held(more[0])]
def items(box):
    yield foreign.held(box)
    more.clear()
pasture.register_container(foreign.Box, items)
counts = pasture.seal().step("immortalize").counts
print(counts["containers"], counts["containers_failed"], list(map(_native.is_immortal, kept)))
print(_native.is_immortal(boxes[0]), pasture.seal().step("immortalize").counts["containers"])
""")
    assert out == "2 0 [True, True]\nFalse 1\n"


def test_unknown_types_do_not_raise_the_number_of_owners_that_stay_mortal(run):
    out = run("""
class Ends:
    def __del__(self): os.getpid()
shared, many = Ends(), [held_by(foreign.Holder) for _ in range(2000)]
owners = [[shared] for _ in range(5000)]
print(pasture.seal().step("immortalize").counts["owners_left_out"])
""")
    assert out == "1\n"


def test_a_module_ends_as_before_where_a_class_of_it_is_registered(run):
    out = run("""
own = sys.modules["own"] = type(sys)("own")
exec("class Own:\\n def f(self): pass\\nFILE = open(1, 'w', closefd=False)", own.__dict__)
pasture.holds_memory(own.Own)
own.FILE.write("written")
del own
""")
    assert out == "written"
