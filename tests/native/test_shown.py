"""What the module gc shows of a process that is sealed: what it shows without the seal."""

import pytest

pytestmark = pytest.mark.immortality

SEAL = """
from gc import get_objects, get_referrers
class Klass: pass
kept = Klass()
kept.items = [object(), {"other": kept}]
def seal():
    _native.immortalize(); gc.freeze(); _native.unfreeze_mortal()
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(SEAL + source)


def test_frozen_objects_are_listed_and_found_as_referrers(run):
    out = run("""
def shown():
    listed = set(map(id, get_objects()))
    return [
        [id(one) in listed for one in (kept.items, kept.items[1], Klass, Klass.__mro__, seal)],
        kept.items in get_referrers(kept.items[0]),
        sum(one is kept.items[1] for one in gc.get_referrers(kept, kept.items[1])),
        kept.items in gc.get_referrers(kept.items[1]),
        gc.get_referrers(object()),
    ]
plain = shown()
seal()
assert gc.get_freeze_count() > 1000
print(shown() == plain, plain)
seal()
print(shown() == plain)
sys.stdout.flush()
if (pid := os.fork()) == 0:
    print(shown() == plain, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
""")
    expected = "[[True, True, True, True, True], True, 1, True, []]"
    assert out.splitlines() == [f"True {expected}", *["True"] * 2]


def test_frozen_objects_are_of_the_oldest_generation(run):
    out = run("""
seal()
def has(*args, **keywords):
    return any(one is kept.items for one in gc.get_objects(*args, **keywords))
print([has(*args) for args in ((), (None,), (0,), (1,), (2,))])
class Oldest:
    def __index__(self): return 2
print([has(generation=each) for each in (None, 0, 1, 2)], has(False), has(True), has(Oldest()))
listed = [id(one) for one in gc.get_objects()]
print(len(listed) - len({*listed}))
print(len(gc.get_objects()) - len(gc.get_objects(generation=None)))
""")
    assert out.splitlines() == [
        "[True, True, False, False, True]",
        "[True, False, False, True] False False True",
        "0",
        "0",
    ]


def test_lists_of_pastures_own_are_not_shown(run):
    out = run("""
gc.collect()
known = {id(one) for one in gc.get_objects()}
seal()
_native.note_frozen_files()
print(sum(id(one) not in known for one in gc.get_objects() if type(one) is list and not one))
""")
    assert out.strip() == "0"


@pytest.mark.parametrize(
    "call",
    (
        "gc.get_objects(3)",
        "len(gc.get_objects(-1)) > 1000",
        "gc.get_objects('a')",
        "gc.get_objects(0, 1)",
        "gc.get_objects(gen=1)",
        "gc.get_referrers(objs=1)",
        "str(inspect.signature(gc.get_objects))",
        "gc.get_referrers.__name__, gc.get_referrers.__doc__, gc.get_objects.__module__",
        "gc.get_referrers.__self__ is gc, repr(gc.get_objects)",
        "gc.get_referrers(), pickle.dumps(gc.get_objects)",
    ),
)
def test_the_functions_are_the_interpreters_own(run, call):
    out = run(f"""
import inspect, pickle
def answer():
    try:
        return {call}
    except Exception as error:
        return type(error), str(error)
plain = answer()
seal()
print(answer() == plain, plain)
""")
    assert out.startswith("True ")


def test_an_audit_hook_hears_of_each_call_once(run):
    out = run("""
seal()
heard = []
sys.addaudithook(lambda name, args: heard.append(name) if name.startswith("gc.get") else None)
gc.get_objects(), gc.get_referrers(kept)
print(heard)
""")
    assert out.strip() == "['gc.get_objects', 'gc.get_referrers']"


@pytest.mark.parametrize("theirs", ["lambda: 'theirs'", "'theirs'.strip"])
def test_what_others_put_in_their_place_stays(run, theirs):
    out = run(f"""
gc.get_objects = {theirs}
seal()
print(gc.get_objects(), any(one is kept.items for one in gc.get_referrers(kept.items[0])))
""")
    assert out.strip() == "theirs True"
