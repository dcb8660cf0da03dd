"""Handlers of signals that C code has set, before the interpreter started or later."""

WARM_UP = """
from pasture.warmup.warmup import warm_up

def application(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/sets":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return []

def seal(*paths):
    pasture.seal(warm_up=lambda: warm_up(application, paths))
"""


def test_a_handler_from_before_the_interpreter_outlives_the_seal(run_program, build_extension):
    library = build_extension("early_handler") / "early_handler.abi3.so"
    out = run_program(
        WARM_UP
        + """
assert signal.getsignal(signal.SIGALRM) is None
for paths in [(), ("/",), ("/sets", "/")]:
    before = _native.signal_action(signal.SIGALRM)
    seal(*paths)
    assert _native.signal_action(signal.SIGALRM) == before
    os.kill(os.getpid(), signal.SIGALRM)
""",
        env={"LD_PRELOAD": str(library)},
    )
    assert out == "C code\n" * 3


def test_a_handler_that_c_code_has_set_later_outlives_the_seal(run_program):
    out = run_program(
        WARM_UP
        + """
import faulthandler
file = open("dump", "w")
faulthandler.register(signal.SIGALRM, file)
seal("/")
os.kill(os.getpid(), signal.SIGALRM)
print(os.path.getsize("dump") > 0)
"""
    )
    assert out == "True\n"


def test_how_a_handler_is_called_outlives_the_seal(run_program):
    out = run_program(
        WARM_UP
        + """
handled = []
for number in (signal.SIGALRM, signal.SIGTERM):
    signal.signal(number, lambda number, frame: handled.append(number))
    signal.siginterrupt(number, False)
before = [_native.signal_action(n) for n in (signal.SIGALRM, signal.SIGTERM)]
seal("/")
print([_native.signal_action(n) for n in (signal.SIGALRM, signal.SIGTERM)] == before)
os.kill(os.getpid(), signal.SIGALRM); os.kill(os.getpid(), signal.SIGTERM)
print(handled)
"""
    )
    assert out == "True\n[14, 15]\n"
