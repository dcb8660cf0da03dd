"""Code that ran is gathered on pages of its own, and nothing a program sees changes."""

import pytest

FUNCTIONS = """
def hot(a):
    inner = lambda b: b + 1
    return [inner(x) for x in range(a)]
def cold(a):
    return a * 2
def outer():
    def nested(): return str("nested")
    return nested
"""


@pytest.fixture(autouse=True)
def no_traces(monkeypatch):
    """Traces hold addresses of code, so that none is gathered where they are made."""
    monkeypatch.setenv("PYTHON_JIT", "0")


def test_only_code_that_ran_since_the_last_forget_moves(run_program):
    out = run_program(f"""
{FUNCTIONS}
hot(3); cold(3)
_native.forget_code_runs()
hot(3)
codes = hot.__code__, cold.__code__
gathered = _native.gather_code()
assert gathered["codes"] >= 2 and gathered["bytes"] > 200, gathered
print(hot.__code__ is codes[0], cold.__code__ is codes[1])
print(hot.__code__ == codes[0], hash(hot.__code__) == hash(codes[0]), hot(3), cold(4))
""")
    assert out == "False True\nTrue True [1, 2, 3] 8\n"


def test_code_is_gathered_by_its_name_without_a_run_of_it(run_program):
    out = run_program(f"""
{FUNCTIONS}
import json.decoder
from pasture.learning import code
hot(3)
functions = json.decoder.py_scanstring, json.decoder.JSONDecoder.decode, hot
codes = [each.__code__ for each in functions]
code.choose(["json.decoder:py_scanstring", "json.decoder:missing"], ran=False)
print(_native.gather_code()["codes"])
print([each.__code__ is not code for each, code in zip(functions, codes)])
code.choose([], ran=False)
print(_native.gather_code()["codes"])
""")
    assert out == "1\n[True, False, False]\n0\n"


def test_names_of_what_ran_are_those_of_code_that_no_seal_has_gathered(run_program):
    out = run_program("""
import json.decoder
from pasture import _native
from pasture.learning import code
_native.forget_code_runs()
json.decoder.py_scanstring('x"', 1)
seen = set()
def found():
    return {name for name, _ in code.that_ran(seen)} & {"json.decoder:py_scanstring"}
print(found(), found())
""")
    assert out == "{'json.decoder:py_scanstring'} set()\n"


def test_code_that_ran_in_a_child_is_gathered_in_its_parent(run_program):
    out = run_program(f"""
{FUNCTIONS}
cold(3)
reader, writer = os.pipe()
def rehearse():
    _native.forget_code_runs()
    hot(3)
    os.write(writer, _native.code_that_ran())
    return "rehearsed"
in_child(rehearse)
codes = hot.__code__, cold.__code__
_native.choose_code(os.read(reader, 1 << 20))
count = _native.gather_code()["codes"]
print([f.__code__ is not code for f, code in zip((hot, cold), codes)])
# Of code that 3.11 has quickened nothing shows that it did not run.
print(hot(3), cold(4), count < 100 or sys.version_info < (3, 12))
# Chosen once: from now on what ran counts again.
_native.gather_code()
print(cold.__code__ is not codes[1])
""")
    assert out == "rehearsed\n[True, False]\n[1, 2, 3] 8 True\nTrue\n"


def test_addresses_at_which_no_code_lies_choose_nothing(run_program):
    out = run_program(f"""
{FUNCTIONS}
hot(3)
for wrong in (b"1234567", "12345678", 8):
    try: _native.choose_code(wrong)
    except (ValueError, TypeError) as error: print(type(error).__name__)
code = hot.__code__
_native.choose_code(bytes(8) + id(hot).to_bytes(8, sys.byteorder) + b"\\xff" * 8)
print(_native.gather_code(), hot.__code__ is code)
_native.choose_code(id(code).to_bytes(8, sys.byteorder)); _native.choose_code(b"")
print(_native.gather_code()["codes"] > 1, hot.__code__ is code)
""")
    assert out == ("ValueError\nTypeError\nTypeError\n{'codes': 0, 'bytes': 0} True\nTrue False\n")


def test_gathered_code_lies_together(run_program):
    out = run_program("""
names = [f"function_{i}" for i in range(600)]
source = "".join(f"def {n}(a):\\n    b = a.attribute\\n    return b if b else a\\n" for n in names)
namespace = {}
exec(source, namespace)
class Holder: attribute = 3
functions = [namespace[n] for n in names]
hot = functions[::20]
_native.forget_code_runs()
for function in hot: function(Holder)
pages = lambda fs: len({id(f.__code__) // 4096 for f in fs})
before = pages(hot)
_native.gather_code()
print(before >= 25, pages(hot) <= 5, [f(Holder) for f in functions] == [3] * 600)
""")
    assert out == "True True True\n"


def test_nested_functions_made_later_use_the_gathered_code(run_program):
    out = run_program(f"""
{FUNCTIONS}
outer()()
before = outer().__code__
_native.gather_code()
print(outer().__code__ is before, outer().__code__ is outer().__code__, outer()())
""")
    assert out == "False True nested\n"


def test_a_generator_and_a_frame_that_run_meanwhile_go_on(run_program):
    out = run_program("""
        def numbers():
            for i in range(3): yield i
        def gathers(value):
            counts = _native.gather_code()
            return counts["codes"] > 0, value
        running = numbers(); next(running)
        print(gathers(5), list(running), list(numbers()), gathers(6)[1])
    """)
    assert out == "(True, 5) [1, 2] [0, 1, 2] 6\n"


def test_tracebacks_closures_and_specialized_calls_survive(run_program):
    out = run_program("""
        import traceback, gc
        class Point:
            def __init__(self, x): self.x = x
            @property
            def double(self): return self.x * 2
            def __getitem__(self, i): return self.x + i
        def work(points):
            total = 0
            for p in points: total += p.double + p[1] + p.x
            return total
        def fails(): raise ValueError("here")
        points = [Point(i) for i in range(10)]
        for _ in range(100): expected = work(points)
        _native.gather_code(); gc.collect(); seal_objects()
        print(all(work(points) == expected for _ in range(100)))
        try: fails()
        except ValueError: print(traceback.format_exc().splitlines()[-1])
        Point.double = property(lambda self: 0)
        print(work(points))
    """)
    assert out.splitlines()[0] == "True"
    assert out.splitlines()[1] == "ValueError: here"
    assert int(out.splitlines()[2]) == sum(2 * i + 1 for i in range(10))


def test_code_that_a_tool_holds_on_to_stays(run_program):
    out = run_program(f"""
import weakref
{FUNCTIONS}
hot(3); cold(3)
watched = weakref.ref(hot.__code__)
before = hot.__code__, cold.__code__
_native.gather_code()
print(hot.__code__ is before[0], watched() is before[0], cold.__code__ is before[1])
""")
    assert out == "True True False\n"


def test_gathering_again_and_ending_the_process_is_fine(run_program):
    out = run_program(f"""
{FUNCTIONS}
for _ in range(3):
    hot(3)
    _native.gather_code(); seal_objects()
hot.__code__ = cold.__code__
print(hot(21))
""")
    assert out == "42\n"


@pytest.mark.kernel
def test_without_memory_nothing_moves(run_program):
    out = run_program(f"""
import resource
{FUNCTIONS}
hot(3)
before = hot.__code__
_, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used, hard))
try:
    _native.gather_code()
except MemoryError:
    print("refused", hot.__code__ is before, hot(2))
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(_native.gather_code()["codes"] > 0, hot.__code__ is before)
""")
    assert out == "refused True [1, 2]\nTrue False\n"


NESTED = """
def innermost(): return 1
def wrapped(times, each):
    code = innermost.__code__
    for _ in range(times):
        code = outer_code.replace(co_consts=(None,) + (code,) * each)
    return code
outer_code = (lambda: None).__code__
"""


@pytest.mark.parametrize(("times", "each"), [(200_000, 1), (60, 2)], ids=["deep", "shared"])
def test_code_nested_deeply_or_many_times_is_no_matter(run_program, times, each):
    out = run_program(f"""
{NESTED}
def holder(): pass
holder.__code__ = wrapped({times}, {each})
innermost()
_native.forget_code_runs()
innermost(); holder()
print(len(_native.code_that_ran()) % 8, _native.gather_code()["codes"] > 0)
print(innermost(), holder())
sys.stdout.flush()
os._exit(0)  # the interpreter itself frees nested code recursively
""")
    assert out == "0 True\n1 None\n"
