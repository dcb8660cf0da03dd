"""A sub-interpreter that shares the lock of the main one, as mod_wsgi has them, uses pasture."""

import ast

OTHER = """
try:
    import _interpreters as interpreters
    other = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    other = interpreters.create(isolated=False)

def there(program):
    error = interpreters.run_string(other, "import pasture, pasture.gc, gc\\n" + program)
    assert error is None, error
"""


def test_nothing_is_sealed_or_collected_there_and_the_reason_is_said(run_program):
    out = run_program(
        OTHER
        + """
there('''
report = pasture.seal()
print(report.sealed, report.reason)
for work in (pasture.gc.install, pasture.gc.uninstall, pasture.gc.collect,
             lambda: pasture.seal(strict=True)):
    try:
        work()
        print("done")
    except pasture.UnsupportedInterpreter as error:
        print(type(error).__name__, "main interpreter" in error.hint)
''')
interpreters.destroy(other)
"""
    )
    first, *rest = out.splitlines()
    assert first == "False this is a sub-interpreter, and pasture works on the main one alone"
    assert rest == ["UnsupportedInterpreter True"] * 4


def test_the_main_interpreter_goes_on_as_before(run_program):
    out = run_program(
        OTHER
        + """
pasture.gc.install()
there("pasture.seal()")
there("try: pasture.gc.uninstall()\\nexcept pasture.UnsupportedInterpreter: pass")
dead = weakref.ref(cycle())
gc.collect()
interpreters.destroy(other)
print(dead() is None, pasture.gc.is_installed(), pasture.seal().sealed)
gc.collect()
def work():
    dead = weakref.ref(cycle())
    gc.collect()
    return dead() is None
in_child(work)
"""
    )
    assert out == "True True True\nTrue\n"


def test_one_with_a_lock_of_its_own_gets_the_same_answer(run_program):
    out = run_program("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
error = interpreters.run_string(other, "import pasture; print(pasture.seal().reason)")
assert error is None, error
interpreters.destroy(other)
""")
    assert out == "this is a sub-interpreter, and pasture works on the main one alone\n"


def test_a_child_with_one_that_is_still_there_ends_as_without_a_seal(run_program):
    out = run_program("""
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
class Ends:
    def __del__(self): print("ended", flush=True)
def end():
    kept.append(interpreters.create())
    sys.modules["__main__"].kept = kept
    sys.exit(3)
kept = [Ends()]
statuses = []
plain = bool if _native.HAS_IMMORTALITY else gc.freeze  # a fatal error of 3.11's
for seal in (plain, pasture.seal):
    seal()
    pid = os.fork()
    if pid == 0: end()
    statuses.append(os.waitpid(pid, 0)[1])
print(statuses, flush=True)
os._exit(0)
""")
    *ended, statuses = out.splitlines()
    first, second = ast.literal_eval(statuses)
    assert (first, len(ended) % 2) == (second, 0)
