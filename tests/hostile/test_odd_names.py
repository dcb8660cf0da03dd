"""Keys of a subclass of str with an __eq__ in Python, in dictionaries that pasture looks into.

No walk and no step of the exit calls them: they stand in classes, and in sys.modules. Whatever such
a class hides, its objects end as they do without pasture.
"""

import pytest

ODD = """
ASKED = []
class Odd(str):
    # As a name it is found in a table where the name itself would stand, and is asked.
    def __hash__(self): return hash(str(self))
    def __eq__(self, other):
        ASKED.append((str(self), other))
        return NotImplemented
NAMES = ["close", "release", "acquire", "__del__", "clear", "held", "write", "writestr",
         "writeframes", "sync", "__class__"]
def odd_class(bases=(), but=(), **namespace):
    odd = {Odd(name): None for name in NAMES if name not in but}
    made = type("OddClass", bases, {**odd, **namespace})
    ASKED.clear()
    return made
"""

SEALS = """
import io
class Finalized:
    def __del__(self): self.held.clear()
classes = [odd_class(), odd_class((list,)), odd_class((Finalized,)), odd_class((Exception,)),
           odd_class(__del__=lambda self: self.held.clear()), odd_class((io.StringIO,))]
# Between objects of other types: what was looked up last is remembered.
kept = [one() for _ in range(3) for one in (*classes, Node, dict, Exception)]
for one in kept:
    if isinstance(one, (Finalized, classes[4])): one.held = []
sys.modules[Odd("weakref.more")] = sys.modules[Odd("_weakrefset.more")] = sys
ASKED.clear()
"""


def test_a_seal_and_collections_ask_no_key_of_a_class(run_program):
    out = run_program(f"""
{ODD}{SEALS}
pasture.seal()
print(ASKED)
kept += [one() for _ in range(3) for one in (*classes, Node, dict, Exception)]
gc.collect(); pasture.collect(); pasture.collect(frozen=True)
print(ASKED)
pasture.seal()
print(ASKED)
""")
    assert out == "[]\n[]\n[]\n"


@pytest.mark.immortality
def test_a_class_whose_names_cannot_be_known_ends_as_without_pasture(run_program):
    out = run_program(f"""
{ODD}
ended = []
class Equal(Odd):
    def __eq__(self, other): return str(self) == other
    __hash__ = Odd.__hash__
class Hides:
    def __set__(self, instance, value): ended.append(value)
    def __get__(self, instance, owner): return ended
hides = type("Hiding", (), {{Equal("held"): Hides()}})
class LetsGo(hides):
    def __del__(self): self.held = None
class Clears:
    def __init__(self, held): self.held = held
    def __del__(self): self.held.clear()
clear = type("Cleared", (), {{Equal("clear"): lambda self: ended.append(1)}})
assert LetsGo().held is ended and ended == [None]
ended.clear()
kept = [LetsGo(), Clears(clear()), Clears([])]
pasture.seal()
print([_native.is_immortal(one) for one in kept])
kept.clear()
print(ended)
""")
    assert out == "[False, False, True]\n[1, None]\n"


def test_the_end_of_a_child_asks_no_key_of_a_class(run_program):
    out = run_program(f"""
{ODD}
class Finalized:
    def __del__(self): pass
class Loud(list):
    def append(self, item): os.write(1, f"{{item}}\\n".encode())
def make(): return [odd_class((Finalized,), but=["__del__"])() for _ in range(3)]
sealed = make()
pasture.seal()
sys.stdout.flush()
if pid := os.fork():
    assert os.waitpid(pid, 0)[1] == 0
    sealed.clear()
    print("parent")
else:
    new = make()
    ASKED = Loud()  # to the last moment
""")
    assert out == "parent\n"


@pytest.mark.immortality
def test_a_type_in_c_whose_names_cannot_be_known_has_an_end(run_program):
    out = run_program(f"""
{ODD}
import array
names = next(one for one in gc.get_referents(array.array) if type(one) is dict)
before = _native.type_has_end(array.array)
names[Odd("close.more")] = None
print(before, _native.type_has_end(array.array))
""")
    assert out == "False True\n"
