"""Arguments that no function of the extension can use."""

ACCEPT_ANY = {
    *("add_audit_hook", "drop_audit_hook", "finalize"),
    *("is_immortal", "learn_stream_owner", "stream_lock"),
}
PRELUDE = """
import os

functions = {name: one for name, one in vars(_native).items() if type(one) is type(len)}
assert len(functions) > 50, functions

def ends(function, *arguments):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*arguments)
        except (TypeError, ZeroDivisionError):
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, os.WUNTRACED)[1]
"""


def test_each_function_refuses_arguments_that_it_cannot_use(run_program):
    out = run_program(
        PRELUDE
        + """

class Unusable:
    def fail(self, *_):
        raise ZeroDivisionError
    __bool__ = __index__ = __eq__ = __hash__ = fail

for name, one in functions.items():
    if any(ends(one, *[Unusable()] * count) for count in range(1, 6)):
        print(name)
"""
    )
    assert {*out.split()} <= ACCEPT_ANY


def test_no_function_crashes_on_a_number_that_no_system_call_takes(run_program):
    out = run_program(
        PRELUDE
        + """
for name, one in functions.items():
    if os.WIFSIGNALED(ends(one, -1)):
        print(name)
"""
    )
    assert out == ""


def test_arguments_of_a_program_are_texts(run_program):
    out = run_program("""
for lists in (([b"word"], []), ([], [b"word"])):
    try: _native.run_main(*lists, False, None, None, None)
    except TypeError as error: print(type(error).__name__)
""")
    assert out == "TypeError\nTypeError\n"


def test_what_to_do_at_a_signal_is_what_was_asked_for_before(run_program):
    out = run_program("""
import signal
for number, action in ((2, b"short"), (signal.SIGKILL, _native.signal_action(2))):
    try: _native.set_signal_action(number, action)
    except (OSError, ValueError) as error: print(error)
""")
    assert out == "not what signal_action() returned\n[Errno 22] Invalid argument\n"


def test_a_function_for_the_exit_that_does_not_say_what_is_to_be_done_is_reported(run_program):
    out = run_program("""
import subprocess
for answer in ("5", "('a', 'b')", "(0, 'b')"):
    program = f"from pasture import _native; _native.arm_exit(lambda can_leave: {answer})"
    done = subprocess.run([sys.executable, "-c", program], stderr=-1, text=True)
    print(done.returncode, "in atexit callback" in done.stderr)
""")
    assert out == "0 True\n" * 3
