"""`seal()` in real processes: what children get, and what stays possible afterwards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import TIMEOUT_S

from pasture import _native
from tests.ready_interpreter import ReadyInterpreter

pytestmark = pytest.mark.interpreter

PRELUDE = """
import gc, json, os, sys, threading, time
import pasture

def in_child(body):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, json.dumps(body()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)

def private_kib():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

def records(count):
    return [{"id": i + 1000, "tags": [float(i), f"tag {i}"]} for i in range(count)]

def growth_when_read(records):
    before = private_kib()
    for record in records:
        for key, value in record.items():
            held = (key, value)
        for tag in record["tags"]:
            held = tag
    return private_kib() - before

def show(**found):
    print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def ready(pytestconfig):
    interpreter = ReadyInterpreter(PRELUDE)
    pytestconfig.add_cleanup(interpreter.end)
    return interpreter


@pytest.fixture
def run(ready):
    """Run a program in a process of its own; with variables, in an interpreter of its own."""

    def run(program, **environ):
        done = ready.finished(program, Path.cwd(), 120, fresh=bool(environ), env=environ or None)
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


STATE = "lambda: [gc.isenabled(), gc.get_threshold()[0]]"


def test_a_child_collects_with_the_thresholds_from_before_the_policy(run):
    found = run(f"""
        from pasture.sealing.gc_settings import begin_loading
        gc.set_threshold(555, 7)
        begin_loading(pasture.POLICIES["freeze"])
        loading = gc.isenabled()
        pasture.seal("freeze")
        show(loading=loading, parent=gc.isenabled(), child=in_child({STATE}))
    """)
    assert found == {"loading": False, "parent": False, "child": [True, 555]}


def test_the_parent_collects_as_before_after_its_seal(run):
    found = run(f"""
        pasture.seal()
        on = gc.isenabled()
        gc.disable()
        pasture.seal()
        show(on=on, off=gc.isenabled(), child=in_child({STATE}))
    """)
    assert (found["on"], found["off"], found["child"][0]) == (True, False, True)


def test_thresholds_that_switch_the_collector_off_are_the_users_and_stay(run):
    found = run(f"gc.set_threshold(0)\npasture.seal()\nshow(child=in_child({STATE}))")
    assert found["child"] == [True, 0]


CYCLES = """
def full_collections_among(cycles):
    before = gc.get_stats()[2]["collections"]
    alive = [None] * 3000
    for i in range(cycles):
        ring = []
        ring.append(ring)
        alive[i % len(alive)] = ring
    return gc.get_stats()[2]["collections"] - before
"""


def test_a_sealed_child_collects_fully_soon_since_little_is_not_frozen(run):
    found = run(f"""
        exec({CYCLES!r})
        old = records(200_000)
        pasture.seal()
        show(
            before=gc.get_threshold()[1:],
            child=in_child(lambda: [gc.get_threshold()[1:], full_collections_among(60_000)]),
        )
    """)
    assert found["before"] == [10, 10]
    assert found["child"][0] == [3, 0]
    assert found["child"][1] >= 1


def test_full_collections_that_cost_much_come_as_late_as_before(run):
    found = run(f"""
        exec({CYCLES!r})
        gc.set_threshold(700)
        pasture.seal()
        def body():
            dear = [["x"] * 1_000_000 for _ in range(5)]  # five objects, many references
            fulls = full_collections_among(300_000)
            return [fulls, gc.get_threshold()[1:]]
        show(child=in_child(body))
    """)
    fulls, older = found["child"]
    assert fulls >= 4
    assert older == [10, 10]


def test_thresholds_that_the_application_sets_while_it_loads_reach_the_child(run):
    found = run("""
        from pasture.sealing.gc_settings import begin_loading
        from pasture.sealing.policy import find_policy
        begin_loading(find_policy("seal"))
        gc.set_threshold(50_000, 20, 30)
        pasture.seal()
        show(child=in_child(gc.get_threshold))
    """)
    assert found["child"] == [50_000, 20, 30]


def test_a_child_that_seals_itself_has_children_that_collect_soon_as_well(run):
    found = run("""
        pasture.seal()
        def body():
            pasture.seal()
            return [gc.get_threshold()[1:], in_child(lambda: gc.get_threshold()[1:])]
        show(child=in_child(body))
    """)
    assert found["child"] == [[10, 10], [3, 0]]


def test_thresholds_that_a_child_sets_for_itself_stay(run):
    found = run(f"""
        exec({CYCLES!r})
        pasture.seal()
        def body():
            gc.set_threshold(700, 4, 1)
            return [full_collections_among(60_000) > 0, gc.get_threshold()]
        show(child=in_child(body))
    """)
    assert found["child"] == [True, [700, 4, 1]]


def test_thresholds_of_older_generations_that_a_program_has_set_stay(run):
    found = run("""
        gc.set_threshold(700, 11, 12)
        pasture.seal()
        show(child=in_child(gc.get_threshold))
    """)
    assert found["child"] == [700, 11, 12]


def test_a_child_whose_heap_is_not_frozen_collects_as_often_as_before(run):
    found = run("""
        old = records(200_000)
        own = pasture.Policy("own", heap=("collect",), in_child=("gc-on", "full-out-of-line"))
        pasture.seal(own)
        show(child=in_child(gc.get_threshold), parent=gc.get_threshold())
    """)
    assert found["child"] == found["parent"]


def test_a_process_that_was_not_sealed_has_ordinary_children(run):
    found = run(f"gc.disable()\nshow(child=in_child({STATE}))")
    assert found["child"][0] is False


@pytest.mark.immortality
def test_what_was_loaded_after_the_first_seal_is_sealed_by_the_second(run):
    found = run("""
        first = records(50_000)
        pasture.seal()
        second = records(50_000)
        unsealed = in_child(lambda: growth_when_read(second))
        report = pasture.seal()
        show(
            unsealed=unsealed,
            sealed=in_child(lambda: growth_when_read(second)),
            older=in_child(lambda: growth_when_read(first)),
            round=report.round,
            objects=report.objects,
        )
    """)
    assert found["unsealed"] > 8000, "the heap is too small to show anything"
    assert found["sealed"] < 512
    assert found["older"] < 512
    assert found["round"] == 2
    assert found["objects"] >= 200_000


@pytest.mark.immortality
def test_a_child_of_a_sealed_process_can_be_sealed_for_its_own_children(run):
    found = run("""
        pasture.seal()

        def child():
            mine = records(50_000)
            report = pasture.seal()
            return [report.sealed, in_child(lambda: growth_when_read(mine)), gc.isenabled()]

        show(child=in_child(child))
    """)
    sealed, growth, collects = found["child"]
    assert sealed and collects
    assert growth < 512


def test_a_report_counts_and_can_be_written_down(run):
    found = run("heap = records(20_000)\nshow(report=pasture.seal().as_dict())")
    report = found["report"]
    assert report["sealed"] is True and report["reason"] is None
    assert all(step["seconds"] > 0 for step in report["steps"] if step["skipped"] is None)
    assert report["plugged_bytes"] > 0
    if _native.HAS_IMMORTALITY:
        assert report["objects"] > 80_000
    else:
        [step] = [step for step in report["steps"] if step["name"] == "immortalize"]
        assert "3.12" in step["skipped"]


def test_another_allocator_costs_one_step_and_says_so(run):
    found = run("show(report=pasture.seal().as_dict())", PYTHONMALLOC="malloc")
    [step] = [s for s in found["report"]["steps"] if s["name"] == "plug-pymalloc"]
    assert "PYTHONMALLOC" in step["skipped"]
    assert found["report"]["sealed"] is True


def test_a_running_thread_keeps_the_heap_unsealed_until_it_waits(run):
    found = run("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside a thread
        stop = threading.Event()
        def count():
            while not stop.is_set(): pass
        thread = threading.Thread(target=count, name="reader")
        thread.start()
        report = pasture.seal()
        child = in_child(lambda: "works")
        stop.set()
        thread.join()
        waiting = threading.Thread(target=time.sleep, args=(600,), daemon=True)
        waiting.start()
        later = pasture.seal().sealed
        show(sealed=report.sealed, reason=report.reason, child=child, later=later)
    """)
    assert found["sealed"] is False
    assert "reader (" in found["reason"] and " in count" in found["reason"]
    assert found["child"] == "works"
    assert found["later"] is True


def test_a_grandchild_lacks_the_threads_of_its_grandparent_too(run):
    found = run("""
        import warnings
        from pasture.sealing import lost

        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside a thread
        for name in ("early", "late"):
            threading.Thread(target=time.sleep, args=(60,), name=name, daemon=True).start()
        pasture.seal()

        def names():
            return [name for name, calls in lost.read(os.getpid()) or ()]

        show(child=in_child(names), grandchild=in_child(lambda: in_child(names)))
    """)
    assert sorted(found["child"]) == sorted(found["grandchild"]) == ["early", "late"]


def test_after_a_step_has_failed_the_process_and_its_children_work(run):
    found = run("""
        from pasture.sealing import seal

        def fail():
            raise MemoryError("as if there were none left")

        heap = records(20_000)
        failing = seal.HEAP_STEPS["plug-malloc"]._replace(work=fail)
        seal.HEAP_STEPS = {**seal.HEAP_STEPS, "plug-malloc": failing}
        report = pasture.seal()
        heap += records(20_000)
        gc.collect()
        child = in_child(lambda: len([r for r in heap if r["tags"]]))
        show(report=report.as_dict(), child=child)
    """)
    report = found["report"]
    assert (report["sealed"], report["reason"]) == (False, "plug-malloc failed")
    steps = {step["name"]: step for step in report["steps"]}
    assert steps["plug-malloc"]["failed"] == "MemoryError: as if there were none left"
    assert steps["plug-pymalloc"]["skipped"] == "an earlier step failed"
    assert steps["freeze"]["skipped"] is None
    assert found["child"] == 40_000


def test_a_sealed_parent_goes_on_working_and_finalizes(run):
    found = run("""
        import collections, decimal, email.message, logging, sqlite3, ssl, xml.dom.minidom

        class Node:
            def __init__(self, child=None):
                self.child, self.me = child, self

        graph = [Node(Node()) for _ in range(20_000)]
        pasture.seal()
        for number in range(5):
            graph = [Node(Node(old)) for old in graph[:1000]]
            gc.collect()
        logging.getLogger("x").addHandler(logging.StreamHandler())
        with sqlite3.connect(":memory:") as connection:
            rows = connection.execute("select 1").fetchall()
        show(rows=rows, text=str(decimal.Decimal(1) / 3)[:4])
    """)
    assert found == {"rows": [[1]], "text": "0.33"}


def test_many_forks_and_seals_in_a_row_leave_no_trace(run):
    found = run("""
        heap = records(5_000)
        for number in range(20):
            pasture.seal()
            heap.append(records(100))
            assert in_child(lambda: len(heap)) == 5_001 + number
        show(round=pasture.seal().round)
    """)
    assert found["round"] == 21


LEAVES_NOTHING = """
import gc, os, threading, warnings
import pasture
warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
gc.disable()
ended = []

class Held:
    def __del__(self):
        ended.append(os.getpid())

def fork():
    held = Held()
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0

pasture.seal()
garbage = [gc.collect()]
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
for with_a_thread in (False, True):
    if with_a_thread:
        thread.start()
    parent = os.getpid()
    fork()
    if ended != [os.getpid()]:
        os._exit(1)  # what the function holds did not end with it
    if os.getpid() != parent:
        os._exit(gc.collect())
    garbage.append(gc.collect())
    del ended[:]
stop.set()
thread.join()
print(garbage)
"""


def test_neither_a_seal_nor_a_fork_leaves_garbage_or_holds_what_the_forking_function_does(run):
    assert run(LEAVES_NOTHING) == [0, 0, 0]


def test_what_was_written_to_a_file_from_before_the_seal_is_not_lost(run, tmp_path):
    program = f"""
import os, sys, pasture
class Holder: pass
Holder.log = open({str(tmp_path / "log")!r}, "a")
Holder.log.write("pending at the seal\\n")
pasture.seal()
pid = os.fork()
if pid == 0:
    Holder.log.write("from the child\\n")
    sys.exit(0)
os.waitpid(pid, 0)
Holder.log.write("from the parent\\n")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)
    assert (tmp_path / "log").read_text().splitlines() == [
        "pending at the seal",
        "from the child",
        "from the parent",
    ]
