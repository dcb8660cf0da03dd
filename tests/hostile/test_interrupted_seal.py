"""Ctrl-C, or a signal handler that raises, in the middle of a seal."""

from pasture.sealing.policy import POLICIES

STEPS = POLICIES["seal"].heap

INTERRUPTED = """
step, after = STEP
import signal
from pasture.sealing import seal, steps
def interrupt(step):
    def work():
        counts = taken[step].work() if after else {}
        signal.raise_signal(signal.SIGINT)  # handled between this step and the next
        for _ in range(1000): pass
        return counts
    return work
taken = dict(steps.HEAP_STEPS)
seal.HEAP_STEPS = {**taken}
heap = [[float(i)] for i in range(5000)]
enabled = gc.isenabled()
"""


DONE = "print(*[step.name for step in pasture.seal().steps if not step.skipped])"


CHILDREN = f"""
{INTERRUPTED}
seal.HEAP_STEPS[step] = taken[step]._replace(work=interrupt(step))
try:
    pasture.seal()
    print("not interrupted")
except KeyboardInterrupt:
    pass
assert gc.isenabled() == enabled
changed = gc.get_freeze_count() > 5000 or _native.is_immortal(heap[0])
def work():
    dead = weakref.ref(cycle())
    gc.collect()
    assert dead() is None
    return pasture.gc.is_installed() or not changed
in_child(work)
seal.HEAP_STEPS = taken
print(pasture.seal().sealed)
in_child(work)
"""


def test_children_are_what_the_heap_is(run_each):
    """What was made immortal or frozen wants a child that collects and leaves accordingly."""
    # A step that this build of the interpreter does not have cannot be interrupted when it is done.
    done = run_each({"": DONE})[""].split()
    assert "freeze" in done
    steps = [(step, False) for step in STEPS] + [(step, True) for step in STEPS if step in done]
    programs = {
        f"{'after' if after else 'before'} {step}": f"STEP = {(step, after)}\n{CHILDREN}"
        for step, after in steps
    }
    assert run_each(programs) == dict.fromkeys(programs, "True\nTrue\nTrue\n")


AT_ANY_TIME = """
import signal
heap = [{"id": i, "x": [float(i)]} for i in range(100_000)]
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
try:
    signal.setitimer(signal.ITIMER_REAL, DELAY)
    pasture.seal()
except KeyboardInterrupt: pass
finally:
    try: signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt: signal.setitimer(signal.ITIMER_REAL, 0)
def work():
    dead = weakref.ref(cycle()); gc.collect()
    return dead() is None, sum(each["id"] for each in heap)
in_child(work)
print(pasture.seal().sealed, gc.isenabled())
in_child(work)
"""


def test_an_interrupt_at_any_time_leaves_a_process_that_can_seal_and_fork(run_each):
    delays = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2)
    programs = {f"{delay} s": f"DELAY = {delay}\n{AT_ANY_TIME}" for delay in delays}
    lived = "(True, 4999950000)\nTrue True\n(True, 4999950000)\n"
    assert run_each(programs) == dict.fromkeys(programs, lived)


COLLECTING = """
import threading
from pasture.fork_safety import threads
in_finalizer, go_on = threading.Event(), threading.Event()
class Slow:
    def __del__(self):
        in_finalizer.set(); go_on.wait()
gc.disable()
look = threads.look
def look_while_another_collects(states):
    cycle(Slow)  # not sooner: lazy imports are made with the collector on, in this thread
    threading.Thread(target=gc.collect, daemon=True).start()
    in_finalizer.wait()
    return ()
threads.look = look_while_another_collects
report = pasture.seal()
threads.look = look
print(report.sealed, report.reason)
print({step.name for step in report.steps if step.name in POLICY.heap and not step.failed})
kept = [[] for _ in range(100)]
print(_native.is_immortal(kept))
go_on.set()
while _native.is_collecting(): pass
"""


def test_a_collection_that_begins_while_threads_are_looked_at_keeps_the_heap_as_it_is(run_program):
    out = run_program("POLICY = pasture.POLICIES['seal']\n" + COLLECTING)
    assert out == (
        "False a garbage collection is running, which hides objects: called by a finalizer?\n"
        "set()\nFalse\n"
    )
