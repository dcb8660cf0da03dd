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
