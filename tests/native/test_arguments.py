"""Arguments that no function of the extension can use."""


def test_each_function_refuses_arguments_that_it_cannot_use(run_program):
    accepts_any = "add_audit_hook drop_audit_hook finalize is_immortal learn_stream_owner stream_lock"
    out = run_program(
        f"""
import os

class Unusable:
    def fail(self, *_):
        raise ZeroDivisionError
    __bool__ = __index__ = __eq__ = __hash__ = fail

def is_refused(function, count):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*[Unusable()] * count)
        except (TypeError, ZeroDivisionError):
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, os.WUNTRACED)[1] == 0

functions = {{name: one for name, one in vars(_native).items() if type(one) is type(len)}}
assert len(functions) > 50, functions
print(*(name for name, one in sorted(functions.items())
        if not all(is_refused(one, count) for count in range(1, 6))))
"""
    )
    assert {*out.split()} <= {*accepts_any.split()}
