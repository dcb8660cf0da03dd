"""Objects that a module holds to the end: they end at the exit as they do without a seal.

Each program runs plain and sealed. What it prints must be the same, in the same order, errors too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOISY = """
import logging, os, sys

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Ends:
    def __init__(self, name, *held):
        self.name, self.held = name, held
    def __del__(self):
        say(self.name, helper(), logging.getLevelName(30), sys.is_finalizing())

def helper():
    return "helped"
"""

PROGRAMS = {
    "objects of the program": """
a = Ends("a"); b = Ends("b", a); c = Ends("c")
seal()
""",
    "objects that came after the seal": """
a = Ends("a")
seal()
b = Ends("b", a); b.itself = b; c = Ends("c", b)
""",
    "objects of an imported module and of a package": """
import of_module, of_package.part
of_package.Ends = None
seal()
""",
    "a cycle": """
a = Ends("a"); b = Ends("b", a); a.held = (b,)
seal()
""",
    "held by a class": """
class Holder: a = Ends("a"); b = [Ends("b")]
Holder.c = Ends("c")
seal()
""",
    "held by what is immortal": """
class Holder: pass
holder = Holder(); holder.a = Ends("a"); many = [holder] * 40
deep = [1, {"b": Ends("b"), "c": (Ends("c"),)}]
shared = [Ends("d")] * 40
seal()
""",
    "held by functions": """
import functools
def make(held):
    def function(): return held
    return function
function = make(Ends("a"))
def default(held=Ends("b")): pass
@functools.cache
def cached(name): return Ends(name)
cached("c"); cached("d")
seal()
""",
    "held by what only lets go of it": """
class LetsGo:
    def __del__(self): self.held = None
nothing = LetsGo(); lets_go = LetsGo(); lets_go.held = Ends("a")
seal()
""",
    "without the module sys": """
a = Ends("a")
del sys.modules["sys"]
seal()
""",
    "without standard input": """
a = Ends("a")
del sys.stdin, sys.__stdin__
seal()
""",
    "a finalizer that the last collection runs clears sys.modules": """
class Clears(Ends):
    def __del__(self): say(self.name, sys.is_finalizing()); sys.modules.clear()
a = Ends("a"); seal()
b = Clears("b"); b.itself = b; del b
""",
    "a finalizer that the last collection runs takes what is pasture's out of sys.modules": """
class Takes(Ends):
    def __del__(self): sys.modules.pop("pasture.end", None); say(self.name)
a = Ends("a"); seal()
b = Takes("b"); b.itself = b; del b
""",
    "a weak reference that no list has": """
import ctypes
class Watched: pass
watched = Watched(); watched.itself = watched
reference = weakref.ref(watched, lambda _: say("called", helper()))
seal()
ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(reference))
""",
    "generators and coroutines": """
def generate():
    try: yield
    finally: say("generator", helper())
generator = generate(); next(generator)
class Wait:
    def __await__(self): yield
async def run():
    try: await Wait()
    finally: say("coroutine", helper())
coroutine = run(); coroutine.send(None)
seal()
""",
    "finalize and atexit": """
import atexit, weakref
a = Ends("a")
watched = Node(); weakref.finalize(watched, lambda: say("finalize", helper()))
atexit.register(say, "atexit before the seal")
seal()
atexit.register(say, "atexit after the seal")
b = Ends("b")
""",
    "weak references": """
class Looks(Ends):
    def __del__(self): say(self.name, self.itself(), [one() for one in KEPT], len(VALUES))
a = Looks("a"); a.itself = weakref.ref(a)
KEPT = [a.itself, weakref.ref(a, lambda _: say("called"))]
VALUES = weakref.WeakValueDictionary(a=a)
watched = Node(); callback = weakref.ref(watched, lambda _: say("called", helper()))
seal()
""",
    "locks, temporary files and folders": """
import tempfile
class Lock:
    def __init__(self): self.path = "program.lock"; open(self.path, "w").close()
    def __del__(self): os.unlink(self.path); say("unlinked")
lock = Lock()
file = tempfile.NamedTemporaryFile(dir=".", prefix="named")
folder = tempfile.TemporaryDirectory(dir=".", prefix="named")
seal()
""",
    "a child that ends at once": """
a = Ends("a")
seal()
if (pid := os.fork()) == 0:
    os._exit(0)
os.waitpid(pid, 0); say("the child has ended")
""",
    "dropped and resurrected": """
class Returns(Ends):
    def __del__(self): super().__del__(); again.append(self)
again = []
a = Ends("a"); b = Returns("b", Ends("c")); d = Ends("d")
seal()
del a
""",
    "a finalizer that raises": """
class Raises(Ends):
    def __del__(self): raise ValueError(self.name)
a = Raises("a"); b = Ends("b")
seal()
""",
    "a finalizer that imports": """
class Imports(Ends):
    def __del__(self):
        try: import this_is_not_there
        except ImportError as error: say(type(error).__name__, error)
a = Imports("a")
seal()
""",
    "many modules": """
import types
for number in range(20):
    module = types.ModuleType(f"module_{number}"); module.one = Ends(str(number))
    sys.modules[module.__name__] = module
del module
seal()
""",
    "a finalizer that only lets go": """
class LetsGo:
    def __init__(self, held): self.held = held
    def __del__(self): self.held = None
a = LetsGo(Ends("a")); b = LetsGo("nothing")
seal()
""",
    "another module under the name of sys": """
import types
a = Ends("a")
other = types.ModuleType("sys"); vars(other).update(vars(sys)); other.modules = {}
sys.modules["sys"] = other
seal()
""",
    "a finalizer that takes modules out of sys.modules": """
import types
class Empties(Ends):
    def __del__(self):
        super().__del__()
        for name in [*sys.modules]: sys.modules.pop(name)
a = Ends("a")
seal()
module = types.ModuleType("module"); module.one = Empties("b")
sys.modules["module"] = module
del module
""",
    "sealed again": """
a = Ends("a")
seal()
b = Ends("b", a)
seal()
c = Ends("c", b)
""",
}
if sys.version_info < (3, 12):  # such a __del__ may not run there: docs/seal.md
    del PROGRAMS["a finalizer that takes modules out of sys.modules"]


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder of modules that hold objects with an end."""
    folder = tmp_path / "modules"
    (folder / "of_package").mkdir(parents=True)
    (folder / "noisy.py").write_text(NOISY)
    (folder / "of_module.py").write_text(f'{NOISY}one = Ends("module")\n')
    (folder / "of_package" / "__init__.py").write_text(
        'from noisy import Ends\np = Ends("package")'
    )
    (folder / "of_package" / "part.py").write_text(
        'from noisy import Ends\ndef function(): pass\npart = Ends("part")'
    )
    return folder


def test_what_modules_hold_ends_at_the_exit_as_it_does_without_a_seal(run_each, modules):
    def run(seal):
        begin = f"{NOISY}\nos.dup2(1, 2)\ngc.collect()\ndef seal(): {seal}\n"
        programs = {name: begin + source for name, source in PROGRAMS.items()}
        outputs = run_each(programs, path=[modules])
        return {name: re.sub("at 0x[0-9a-f]+", "", out) for name, out in outputs.items()}

    plain, sealed = run("gc.collect()"), run("pasture.seal()")
    assert all("helped" in plain[name] for name in list(PROGRAMS)[:9])  # else they show nothing
    assert sealed == plain


# No function refers to the program's names, so that these go one by one.
BARE = """
import sys, noisy, of_package.part
b = noisy.Ends("b"); a = noisy.Ends("a", b); held = [noisy.Ends("c")]
if sys.argv[-1] == "seal": import pasture; pasture.seal()
"""


def test_a_program_without_functions_ends_before_its_modules(run_program, modules):
    (modules / "bare.py").write_text(BARE)

    def run(*words):
        variables = {**os.environ, "PYTHONPATH": str(modules)}
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=modules, env=variables)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.split()[0] for line in done.stdout.splitlines()]

    plain = run("bare.py")
    assert plain[:2] == ["a", "b"] and set(plain) == {"a", "b", "c", "package", "part"}
    sealed = run("bare.py", "seal")
    assert sealed[:2] == plain[:2] and set(sealed) == set(plain)
    assert run("-c", BARE, "seal") == sealed


HELD_BY_C = """
os.dup2(1, 2)
import threading, time
os.register_at_fork(after_in_child=helper)
sys.excepthook = lambda *_: helper()
class Handler(logging.Handler):
    def __del__(self): say("handler", helper())
logging.getLogger().addHandler(Handler())
def wait(held):
    while True: time.sleep(1)
threading.Thread(target=wait, args=(Ends("of a thread"),), daemon=True).start()
a = Ends("a")
pasture.seal()
"""


@pytest.mark.immortality
def test_what_c_code_keeps_a_module_for_ends_with_the_rest(run_program):
    out = run_program(NOISY + HELD_BY_C)
    assert sorted(out.splitlines()) == ["a helped WARNING True", "handler helped"]


def test_a_parent_under_pasture_seal_removes_its_lock_and_children_do_not(tmp_path, modules):
    pytest.importorskip("pasture_auto", reason="the check builds come without the start file")
    program = """
import multiprocessing, os, noisy
def work(_): return os.path.exists("lock")
class Lock(noisy.Ends):
    def __init__(self): super().__init__("lock"); open("lock", "w").close()
    def __del__(self): super().__del__(); os.unlink("lock")
if __name__ == "__main__":
    lock = Lock()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(work, range(8)))
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(modules), "PASTURE": "seal"},
    )
    assert done.returncode == 0
    assert [line[:20] for line in done.stderr.splitlines()] == ["pasture: policy seal"]
    assert done.stdout == "lock helped WARNING True\n"
    assert not (tmp_path / "lock").exists()


def test_a_program_that_runs_atexit_functions_itself_and_goes_on_loses_nothing(run_program):
    out = run_program(f"""
{NOISY}
import atexit
a = Ends("a")
for _ in range(2):
    pasture.seal()
    atexit._run_exitfuncs()
    pasture._native.finalize_before_modules(False)
    before = dict(sys.modules); sys.modules.clear(); sys.modules.update(before)
    del before; sys.modules.pop("pasture.end", None)
say("goes on")
""")
    assert out.splitlines()[0] == "goes on"


def test_a_finalizer_that_takes_all_out_of_sys_modules_at_the_end_ends_itself(run_program):
    out = run_program("""
class Takes:
    def __del__(self):
        while sys.modules: sys.modules.popitem()
        print("ended", flush=True)
pasture.seal()
takes = Takes(); takes.itself = takes; del takes
""")
    assert out == "ended\n"
