"""Allocators, tools, other interpreters, and memory that is refused: at each step of the seal."""

import ctypes.util
import sys

import pytest

from pasture import _native

CHECK_BUILD = hasattr(_native, "fail_scratch_after")
DEBUG_BUILD = hasattr(sys, "gettotalrefcount")

# The check build walks the whole heap after each change of it: what matters is that there are
# objects of each kind, more than fit in one pool, not how many.
LIFE = """
size, times = 1_500, 3
class Plain:
    pass
def instance(number):
    made = Plain(); made.number = number; made.list = [made]
    return made
def heap():
    return [{"id": i, "name": f"name {i}", "list": [float(i)], "one": instance(i)}
            for i in range(size)]
def check(held):
    assert all(one["id"] == i and one["name"] == f"name {i}" and one["list"] == [float(i)]
               and one["one"].number == i and one["one"].list[0] is one["one"]
               for i, one in enumerate(held))
    gc.collect(0); gc.collect(1)
    dead = weakref.ref(cycle())
    gc.collect()
    return dead() is None
held = heap()
def child():
    more = heap()
    for _ in range(times): assert check(more) and check(held)
    del more
    return check(held)
def live():
    pasture.collect()
    assert check(held)
    sealed = pasture.seal().sealed
    in_child(child)
    in_child(lambda: (pasture.seal().sealed, in_child(child)))
    return sealed, check(held)
"""

# Where there are many lives: once shows what a refusal or a tool has left.
SHORT_LIFE = LIFE.replace("1_500, 3", "300, 1")

LIVED = "True\nTrue\n(True, None)\n(True, True)\n"

PYTHONMALLOC = ["malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "debug", "default"]


@pytest.mark.parametrize("name", PYTHONMALLOC)
def test_each_allocator_of_the_interpreter(run_program, name):
    assert run_program(f"{LIFE}\nprint(live())", env={"PYTHONMALLOC": name}) == LIVED


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc_minimal", "mimalloc"])
def test_each_allocator_that_is_preloaded(run_program, name):
    library = ctypes.util.find_library(name)
    if library is None:
        pytest.skip(f"lib{name} is not installed")
    out = run_program(f"{LIFE}\nprint(live())", env={"LD_PRELOAD": library})
    assert out == LIVED
    out = run_program(
        f"{LIFE}\nprint(live())", env={"LD_PRELOAD": library, "PYTHONMALLOC": "malloc"}
    )
    assert out == LIVED


@pytest.mark.parametrize(
    "words", [["-X", "tracemalloc"], ["-X", "dev"], ["-O"], ["-X", "importtime"]]
)
def test_each_mode_of_the_interpreter(run_program, words):
    assert run_program(f"{LIFE}\nprint(live())", words=words) == LIVED


TOOLS = {
    "settrace": "sys.settrace(lambda *_: None)",
    "setprofile": "sys.setprofile(lambda *_: None)",
    "cProfile": "import cProfile; profile = cProfile.Profile(); profile.enable()",
    "tracemalloc": "import tracemalloc; tracemalloc.start()",
    "gc.DEBUG_SAVEALL": "gc.set_debug(gc.DEBUG_SAVEALL); gc.set_debug(0)",
    "audit hook": "sys.addaudithook(lambda *_: None)",
    "gc.callbacks": "gc.callbacks.append(lambda *_: [[i] for i in range(100)])",
    "gc.freeze": "gc.freeze()",
    "gc.freeze and unfreeze": "gc.freeze(); gc.unfreeze()",
    "every generation at once": "gc.set_threshold(1, 1, 1)",
    "faulthandler": "import faulthandler; faulthandler.dump_traceback_later(1000)",
    "low recursion limit": "sys.setrecursionlimit(60)",
    "a context variable": "import contextvars; contextvars.ContextVar('v').set([1])",
    "thread-local data": "import threading; local = threading.local(); local.x = [1]",
}


# Each in a child that is forked before anything is sealed. The last name printed is that of the
# one that failed.
EACH = """
def name_and_live(name, tool, live):
    print(name)
    exec(tool, globals())
    return live()
for name, tool in TOOLS.items():
    in_child(lambda: name_and_live(name, tool, live))
"""


def test_each_tool_that_is_on_all_the_time(run_program):
    out = run_program(f"{LIFE}\ntimes = 2\nTOOLS = {TOOLS!r}\n{EACH}")
    assert out == "".join(f"{tool}\n{LIVED}" for tool in TOOLS)


def test_each_tool_that_a_child_turns_on(run_program):
    out = run_program(f"""
{LIFE}
TOOLS = {TOOLS!r}
pasture.seal()
{EACH.replace("live))", "child))")}
""")
    assert out == "".join(f"{tool}\nTrue\n" for tool in TOOLS)


COVERAGE = """
import coverage
tool = coverage.Coverage(data_file=None, config_file=False)
tool.set_option("run:core", CORE)
tool.start()
"""


@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
@pytest.mark.parametrize("since", ["ever", "the seal, in a child"])
def test_coverage_that_measures_all_the_time(run_program, generators, core, since):
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is new in CPython 3.12")
    start, then = COVERAGE.replace("CORE", repr(core)), "print(live())"
    if since != "ever":
        start, then = "", f"pasture.seal()\nexec({start!r})\nin_child(live)\nprint(live())"
    out = run_program(f"{start}{LIFE}\n{then}", path=[generators("coverage")])
    assert out.endswith(LIVED)


SUBINTERPRETER = """
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
other = interpreters.create()
interpreters.run_string(other, "import json, re; kept = [[i] for i in range(1000)]")
"""


@pytest.mark.parametrize("config", ["isolated", "legacy"])
def test_while_another_interpreter_lives(run_program, config):
    if config == "legacy" and sys.version_info < (3, 13):
        pytest.skip("every interpreter shares objects before CPython 3.12")
    create = SUBINTERPRETER
    if config == "legacy":
        create = create.replace("create()", "create('legacy')")
    out = run_program(f"""
{LIFE}
{create}
pasture.seal()
# No fork meanwhile: CPython's own end of the other interpreters in a child crashes or hangs.
interpreters.run_string(other, "import gc; assert gc.collect() >= 0 and kept[7] == [7]")
assert check(held)
interpreters.run_string(other, "assert kept[9] == [9]")
interpreters.destroy(other)
in_child(child)
print(check(held), pasture.seal().sealed)
in_child(child)
""")
    assert out == "True\nTrue True\nTrue\n"


@pytest.mark.skipif(not CHECK_BUILD, reason="memory is refused on demand in the check build alone")
@pytest.mark.parametrize(
    "step", ["pasture.collect()", "pasture.collect(frozen=True)", "gc.collect()", "pasture.seal()"]
)
def test_memory_is_refused_at_each_point_of_a_step(run_program, step):
    out = run_program(f"""
{SHORT_LIFE}
def attempt():
    pasture.gc.install()
    sys.unraisablehook = lambda _: None
    litter = [cycle() for _ in range(10)]
    dead = [weakref.ref(node) for node in litter]
    gc.collect(0); gc.collect(1)
    litter.clear()
    skipped = _native.collection_history()["skipped"]
    _native.fail_scratch_after(granted)
    refused = False
    try:
        result = {step}
        refused = _native.collection_history()["skipped"] > skipped or "failed" in str(result)
    except MemoryError:
        refused = True
    _native.fail_scratch_after(-1)
    assert check(held)
    in_child(child)
    return refused or any(ref() for ref in dead)
granted, answers = 0, []
while True:
    sys.stdout.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(write, b"yes" if attempt() else b"no")
            status = 0
        except BaseException: sys.excepthook(*sys.exc_info())
        finally: os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0, granted
    os.close(write)
    answer = os.read(read, 3); os.close(read)
    answers.append(answer.decode())
    granted += 1
    if answer == b"no" or granted > 200: break  # what the step asks for is granted
print(*answers)
""")
    answers = out.splitlines()[-1].split()
    assert len(answers) > 3
    assert answers == ["yes"] * (len(answers) - 1) + ["no"]


@pytest.mark.parametrize("step_kib", [64, 1024])
def test_address_space_is_refused_at_each_point_of_the_seal(run_program, step_kib):
    """Limits from nothing to more than enough, each in a process of its own."""
    out = run_program(f"""
{SHORT_LIFE}
import resource
_, hard = resource.getrlimit(resource.RLIMIT_AS)
def attempt():
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
    try: sealed = pasture.seal().sealed
    except MemoryError: sealed = False
    finally: resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    in_child(child)
    return check(held), sealed
for number in range(40):
    more = number * {step_kib} * 1024
    in_child(attempt)
""")
    lines = out.splitlines()
    assert lines[::2] == ["True"] * 40
    assert all(line.startswith("(True, ") for line in lines[1::2])
