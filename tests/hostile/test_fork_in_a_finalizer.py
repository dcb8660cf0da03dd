"""A fork while survivors are hidden from the built-in collector: they are the child's, too."""

FORKERS = {
    "its own thread": """
def fork():
    global pid
    pid = os.fork()
""",
    "another thread": """
import threading
def fork():
    def run():
        global pid
        pid = os.fork()
        if pid == 0: in_the_child()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
""",
    "a thread that was waiting": """
import threading
asked, done = threading.Event(), threading.Event()
def run():
    global pid
    asked.wait()
    pid = os.fork()
    if pid == 0: in_the_child()
    done.set()
thread = threading.Thread(target=run, daemon=True)
def fork():
    if not thread.is_alive(): thread.start()
    asked.set()
    done.wait()
""",
}

BEGINS = {
    "__del__": "class Last(Node):\n    def __del__(self): once()",
    "weak reference": """
class Last(Node): pass
def watch(node): return weakref.ref(node, lambda _: once())
""",
}

RUNS = {
    "collect": "pasture.collect()",
    "collect frozen": "pasture.collect(frozen=True)",
    "install": "pasture.gc.install(); gc.collect()",
    "built-in": "gc.collect()",  # what the others are measured by
}


PROGRAM = """
gc.disable()
pid = None
watch = None
{forker}
{begins}
def once():
    if pid is None: fork()
def in_the_child():
    status = 1
    try:
        found = {{id(each) for each in gc.get_objects()}}
        missing = sum(id(each) not in found for each in survivors)
        print(missing, "missing", flush=True)
        status = 0
    finally:
        os._exit(status)
survivors = [[number] for number in range(5000)]
node = cycle(Last)
held = watch and watch(node)
del node
{run}
if pid == 0: in_the_child()
assert os.waitpid(pid, 0)[1] == 0
found = {{id(each) for each in gc.get_objects()}}
print(sum(id(each) not in found for each in survivors), "missing")
"""


def test_the_child_has_the_survivors_of_the_collection(run_each):
    programs = {
        f"{forker}, {beginning}, {run}": PROGRAM.format(forker=fork, begins=begins, run=call)
        for forker, fork in FORKERS.items()
        for beginning, begins in BEGINS.items()
        for run, call in RUNS.items()
    }
    assert run_each(programs) == dict.fromkeys(programs, "0 missing\n0 missing\n")


def test_a_child_that_was_forked_there_goes_on_collecting(run_program):
    out = run_program(f"""
gc.disable()
pid = None
{FORKERS["another thread"]}
{BEGINS["__del__"]}
def once():
    if pid is None: fork()
def in_the_child():
    status = 1
    try:
        gc.enable()
        kept = [[i] for i in range(5000)]
        for _ in range(3):
            pasture.collect(); gc.collect()
        print(len(kept), _native.collection_history()["skipped"], flush=True)
        status = 0
    finally:
        os._exit(status)
survivors = [[number] for number in range(5000)]
cycle(Last)
pasture.collect()
assert os.waitpid(pid, 0)[1] == 0
print(pasture.collect() >= 0)
""")
    assert out == "5000 0\nTrue\n"


def test_a_seal_by_a_finalizer_leaves_the_heap_alone(run_program):
    out = run_program("""
gc.disable()
class Sealing:
    def __del__(self):
        global report
        report = pasture.seal()
for collect in (pasture.collect, gc.collect):
    cycle(Sealing)
    collect()
    print(report.sealed, "garbage collection" in report.reason)
print(pasture.seal().sealed)
""")
    assert out == "False True\nFalse True\nTrue\n"
