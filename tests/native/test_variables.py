"""A file of variables that code in C finds by getenv(), and no other code."""

import pytest

FILE = """
import ctypes, os

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p

def opened(*pairs):
    file = os.memfd_create("variables")
    os.write(file, b"".join(pair + b"\\0" for pair in pairs))
    try:
        return _native.open_variables(file)
    finally:
        os.close(file)

is_watched = opened(b"PASTURE_A=1", b"PASTURE_AB=2", b"TZ=Mars", b"PASTURE_NONE=")
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(FILE + source)


def test_variables_are_found_by_their_whole_names_and_hidden(run):
    out = run("""
print([_native.find_variable(name) for name in (b"PASTURE_A", b"PASTURE_AB", b"PASTURE", b"NO")])
_native.hide_variable(b"PASTURE_AB")
_native.hide_variable(b"NO")
print(_native.find_variable(b"PASTURE_AB"), _native.variable_names())
print(_native.close_variables(), _native.find_variable(b"PASTURE_A"), _native.variable_names())
for one in (_native.find_variable, _native.hide_variable):
    try: one("PASTURE_A")
    except TypeError as error: print(error)
""")
    assert out.splitlines() == [
        "[b'1', b'2', None, None]",
        "None [b'PASTURE_A', b'TZ', b'PASTURE_NONE']",
        "([], True) None []",
        *["a name is bytes"] * 2,
    ]


def test_code_in_c_finds_them_and_what_it_asks_for_is_known(run):
    out = run("""
libc.clearenv()
assert libc.getenv(b"PASTURE_A") == (b"1" if is_watched else None)
os.environ["PASTURE_OWN"] = "own"
names = b"PASTURE_A", b"PASTURE_A", b"PASTURE_OWN", b"PASTURE_NONE", b"", b"TZ", b"PASTURE"
found = [libc.getenv(name) for name in names]
asked, are_all = _native.close_variables()
if is_watched:
    assert found == [b"1", b"1", b"own", b"", None, None, None], found
    assert asked == [b"PASTURE_A", b"PASTURE_OWN", b"PASTURE_NONE", b"TZ", b"PASTURE"], asked
assert are_all
opened(b"PASTURE_B=3")
libc.getenv(b"N" * 70000)
print(_native.close_variables()[1] is not is_watched, libc.getenv(b"PASTURE_B"))
""")
    assert out == "True None\n"


def test_one_file_is_open_at_a_time(run):
    out = run("""
import errno
for file, expected in ((os.memfd_create("empty"), errno.EBUSY), (-1, errno.EBUSY)):
    try: _native.open_variables(file)
    except OSError as error: print(error.errno == expected)
_native.close_variables()
for file, expected in ((os.memfd_create("empty"), errno.EINVAL), (-2, errno.EBADF)):
    try: _native.open_variables(file)
    except OSError as error: print(error.errno == expected)
print(_native.close_variables())
""")
    assert out.splitlines() == ["True"] * 4 + ["([], True)"]


def test_handlers_of_a_fork_may_ask_for_variables(run_program):
    """Those that were there before ours run while ours holds its lock."""
    out = run_program(
        """
import ctypes, os
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
found = []
handler = ctypes.CFUNCTYPE(None)(lambda: found.append(libc.getenv(b"PASTURE_A")))
libc.__register_atfork(handler, handler, handler, None)
"""
        + FILE
        + """
expected = b"1" if is_watched else None
pid = os.fork()
if pid == 0:
    os._exit(found != [expected] * 2)
print(os.waitpid(pid, 0)[1], found == [expected] * 2, libc.getenv(b"PASTURE_AB"))
""",
        fresh=True,
    )
    assert out.startswith("0 True ")
