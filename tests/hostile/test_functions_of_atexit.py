"""Programs that run the functions of atexit themselves, or seal and fork while these run.

The oracle is the same program without a seal.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.interpreter

PROGRAM = """
import atexit, os, sys

def seal():
    if sys.argv[1] == "sealed":
        import pasture
        pasture.seal()

def say(word):
    print(word, flush=True)

def fork():
    pid = os.fork()
    if pid:
        print("ended with", os.waitpid(pid, 0)[1], flush=True)
    return not pid

class Box:
    pass

box = Box()
"""

SEALS_AT_EXIT = """
def work():
    seal()
    say("works")
    try:
        fork()
    except RuntimeError as error:
        print(error)

for each in (1, 2, work, 3):
    atexit.register(each) if each is work else atexit.register(say, each)
"""

PROGRAMS = {
    "another function in the place of atexit.register": """
registered = []
atexit.register = lambda *args: registered.append(args)
atexit.unregister = lambda *args: None
seal()
with open("/dev/stdout", "w") as left: pass
if fork():
    sys.exit(7)
sys.exit(4)
""",
    "sealed in a function of atexit": SEALS_AT_EXIT + "sys.exit(4)",
    "sealed in one that the program runs": SEALS_AT_EXIT + "atexit._run_exitfuncs(); sys.exit(4)",
    "another function in the place of atexit.unregister, which fails": """
registered = []
atexit.register = lambda *args: registered.append(args)
def unregister(*args): raise ValueError
atexit.unregister = unregister
seal()
with open("/dev/stdout", "w") as left: pass
if fork():
    sys.exit(7)
sys.exit(4)
""",
    "sealed deep in calls of C": """
def deep(calls):
    return [*map(deep, [calls - 1])] if calls else seal()
deep(200)
if fork():
    box.file = open(sys.argv[2], "w")
    box.file.write("written by the child")
    sys.exit(7)
sys.exit(4)
""",
    "functions run by hand where no call can be pending any more": """
import collections, ctypes, functools, operator
class Ends:
    def __del__(self): print("ended", flush=True)
work = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
add = functools.partial(ctypes.pythonapi.Py_AddPendingCall, work, None)
atexit.register(collections.deque, map(operator.call, [add] * 1000), 0)  # the last but one
seal()
ends = Ends()
atexit._run_exitfuncs()
box.file = open(sys.argv[2], "w")
box.file.write("written after that")
sys.exit(7)
""",
    "functions run by hand before a child": """
seal()
atexit.register(say, "by hand")
atexit._run_exitfuncs()
atexit.register(say, "at the end")
if fork():
    sys.exit(7)
sys.exit(4)
""",
    "functions run by hand, and a file left open after that": """
seal()
atexit._run_exitfuncs()
box.file = open(sys.argv[2], "w")
box.file.write("written after that")
""",
    "functions run by hand in a child, and a file left open": """
seal()
if fork():
    atexit._run_exitfuncs()
    box.file = open(sys.argv[2], "w")
    box.file.write("written by the child")
    sys.exit(5)
""",
    "functions forgotten in a child": """
seal()
if fork():
    atexit._clear()
    sys.exit(6)
""",
    "many children, some with threads that go on": """
import threading
seal()
sys.stderr = open(os.devnull, "w")
for status in range(60):
    if fork():
        if status % 3 == 0:
            spin = lambda: [sum(range(100)) for _ in iter(int, 1)]
            threading.Thread(target=spin, daemon=True).start()
        if status % 5 == 0:
            raise ValueError
        sys.exit(status)
""",
}

if sys.version_info < (3, 14):  # later ones crash or hang without a seal, too
    PROGRAMS["a thread of C that calls Python, waited for by a function of C's exit()"] = """
import ctypes, threading
seal()
if fork():
    libc, started = ctypes.CDLL(None), threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def run(_):
        while True:
            started.set()
            threading.Event().wait(0.005)

    thread = ctypes.c_void_p()
    libc.pthread_create(ctypes.byref(thread), None, run, None)
    libc.__cxa_atexit(ctypes.cast(libc.pthread_join, ctypes.c_void_p), thread, None)
    started.wait()
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_ends_as_without_a_seal(name, tmp_path):
    seen = {}
    for how in ("plain", "sealed"):
        file = tmp_path / how
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM + PROGRAMS[name], how, str(file)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        left = file.read_text() if file.exists() else None
        seen[how] = (done.returncode, done.stdout, done.stderr, left)
    assert seen["sealed"] == seen["plain"]


def test_what_a_signals_handler_raises_where_no_call_can_be_pending_is_reported(tmp_path):
    source = """
import collections, ctypes, functools, operator, signal
def handler(*_): raise KeyError("raised")
signal.signal(signal.SIGUSR1, handler)
work = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
add = functools.partial(ctypes.pythonapi.Py_AddPendingCall, work, None)
interrupt = functools.partial(ctypes.PyDLL(None)["raise"], int(signal.SIGUSR1))
atexit.register(collections.deque, map(operator.call, [*[add] * 1000, interrupt]), 0)
seal()
try: atexit._run_exitfuncs()
except KeyError as error: print(error, file=sys.stderr)  # before 3.13
sys.exit(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + source, "sealed"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, "'raised'" in done.stderr) == (7, True), done.stderr
