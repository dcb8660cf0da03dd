"""What a descriptor is, without changing it; and what a child gets in place of its parent's."""

import pytest

PRELUDE = """
import os, select, socket, tempfile

LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}

def connect(family=socket.AF_INET, kind=socket.SOCK_STREAM, path="\\0streams-%d" % os.getpid()):
    # A client, what the server has accepted, and the server.
    server = socket.socket(family, kind)
    server.bind((LOOPBACK[family], 0) if family in LOOPBACK else path)
    server.listen()
    client = socket.socket(family, kind)
    client.connect(server.getsockname())
    return client, server.accept()[0], server

def noted(*files):
    return tuple((one.fileno(), os.fstat(one.fileno()).st_ino) for one in files)

def facts(one):
    names = "family kind listening connecting connected at_end acked received own peer".split()
    return dict(zip(names, _native.describe_stream(one.fileno()), strict=True))

def said(one):
    # What its client meets: what a first write gives, and the read behind it.
    found = []
    for use in (lambda: one.send(b"ask"), lambda: one.recv(9)):
        try:
            found.append(use())
        except OSError as error:
            found.append(type(error).__name__)
    return found
"""


@pytest.fixture
def run(run_program):
    return lambda source: run_program(PRELUDE + source)


def test_a_connection_is_described_in_the_words_of_its_addresses(run):
    out = run("""
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    client, accepted, server = connect(family)
    here, there, listener = map(facts, (client, accepted, server))
    name = lambda address: "%s:%d" % address[:2] if type(address) is tuple else os.fsdecode(address)
    assert (here["own"], here["peer"]) == (name(client.getsockname()), name(client.getpeername()))
    assert (there["own"], there["peer"]) == (here["peer"], here["own"])
    assert listener["own"] == here["peer"] and listener["peer"] == ""
    assert (listener["listening"], listener["connected"]) == (True, False)
    assert (here["listening"], here["connected"], here["connecting"]) == (False, True, False)
    assert (here["family"], here["kind"]) == (family, socket.SOCK_STREAM)
one, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
assert (facts(one)["own"], facts(one)["peer"], facts(one)["connected"]) == ("", "", True)
with tempfile.TemporaryDirectory() as folder:
    named, _, _ = connect(socket.AF_UNIX, path=folder + "/name")
    assert facts(named)["peer"] == folder + "/name"
datagrams = socket.socket(type=socket.SOCK_DGRAM)
assert facts(datagrams)["kind"] == socket.SOCK_DGRAM
other_family = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
assert (facts(other_family)["own"], facts(other_family)["family"]) == ("", socket.AF_NETLINK)
print("described")
""")
    assert out == "described\n"


def test_bytes_of_tcp_and_the_end_of_what_can_be_read_are_known(run):
    out = run("""
import time
client, accepted, server = connect()
known = lambda: tuple(facts(client)[name] for name in ("acked", "received", "at_end"))
def until(wanted):
    while known() != wanted:
        time.sleep(0.001)
assert known() == (1, 0, False)
client.send(b"123"); accepted.recv(3)
until((4, 0, False))
accepted.send(b"12")
until((4, 2, False))
accepted.shutdown(socket.SHUT_WR)
until((4, 3, False))  # the end counts, and two bytes can still be read
client.recv(2)
assert known() == (4, 3, True)
one, other = socket.socketpair()
one.shutdown(socket.SHUT_RD)
assert facts(one)["at_end"] and facts(one)["acked"] == -1
assert not facts(other)["at_end"]
waits = socket.socket()
waits.setblocking(False)
full = socket.socket(); full.bind(("127.0.0.1", 0)); full.listen(0)
fills = [socket.socket() for _ in range(4)]
for each in fills:
    each.setblocking(False)
    each.connect_ex(full.getsockname())
print([facts(each)["connecting"] for each in fills].count(True) > 0, facts(waits)["connecting"])
""")
    assert out == "True False\n"


def test_a_look_takes_no_error_of_a_socket_and_changes_no_flag(run):
    out = run("""
import struct
client, accepted, server = connect()
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
socket.setdefaulttimeout(5)
facts(client)
blocks = os.get_blocking(client.fileno())
accepted.close()  # with a reset
facts(client), facts(client)
print(blocks, os.get_blocking(client.fileno()), said(client)[0])
for other in (0, 999):
    try: _native.describe_stream(other)
    except OSError as error: print(error.errno)
""")
    assert out == "True True ConnectionResetError\n88\n9\n"


def test_a_dead_end_is_like_a_server_that_has_closed(run):
    out = run("""
ends = [connect(family, kind) for family, kind in (
    (socket.AF_INET, socket.SOCK_STREAM),
    (socket.AF_INET6, socket.SOCK_STREAM),
    (socket.AF_UNIX, socket.SOCK_STREAM),
    (socket.AF_UNIX, socket.SOCK_SEQPACKET),
)]
clients = [client for client, _, _ in ends]
clients[0].setblocking(False)
os.set_inheritable(clients[1].fileno(), True)
def look():
    _native.isolate_streams(noted(*clients), ())
    print([one.family.name for one in clients], [facts(one)["at_end"] for one in clients])
    print([os.get_blocking(one.fileno()) for one in clients])
    print([os.get_inheritable(one.fileno()) for one in clients])
    return [said(one) for one in clients]
before = sorted(os.listdir("/proc/self/fd"))
def leaves_no_file():
    _native.isolate_streams(noted(*clients), ())
    return sorted(os.listdir("/proc/self/fd")) == before
in_child(look)
in_child(leaves_no_file)
for client, accepted, _ in ends:
    accepted.send(b"for the parent")
    print(client.recv(99).decode(), end=" ")
print([os.get_blocking(one.fileno()) for one in clients])
""")
    assert out == (
        "['AF_INET', 'AF_INET6', 'AF_UNIX', 'AF_UNIX'] [True, True, True, True]\n"
        "[False, True, True, True]\n"
        "[False, True, False, False]\n"
        "[[3, b''], [3, b''], ['BrokenPipeError', b''], ['BrokenPipeError', b'']]\n"
        "True\n" + "for the parent " * 4 + "[False, True, True, True]\n"
    )


def test_a_number_that_is_another_files_by_now_stays(run):
    out = run("""
client, accepted, server = connect()
(number, inode), = noted(client)
def look():
    _native.isolate_streams(((number, inode + 1), (999, 7)), (number, 999))
    return facts(client)["at_end"]
in_child(look)
""")
    assert out == "False\n"


def test_a_child_that_may_open_no_more_files_shares_no_stream(run):
    out = run("""
import resource
first, second = (made := [connect(), connect()])[0][0], made[1][0]
poll = select.epoll()
poll.register(first, select.EPOLLIN)
def without_files(keeps_spare):
    def look():
        if not keeps_spare:  # a program that closes what it does not know
            os.close(spare[0]); os.close(spare[1])
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            _native.isolate_streams(noted(first, second), (poll.fileno(),))
        except OSError as error:
            print("error", error.errno, end=" ")
        found = [said(one) for one in (first, second)]
        return found, [number == first.fileno() for number, _ in poll.poll(0)]
    return look
spare = [os.dup(0), os.dup(0)]  # the next numbers
os.close(spare[0]); os.close(spare[1])
_native.keep_spare_end()
_native.keep_spare_end()  # it is there
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
in_child(without_files(True))
in_child(without_files(False))
for one in spare:
    os.close(one)
    _native.keep_spare_end()
print(facts(socket.socket(fileno=spare[0]))["at_end"])
""")
    spare, none, again = out.splitlines()
    assert spare == "([['BrokenPipeError', b''], ['BrokenPipeError', b'']], [True])"
    assert none == "error 24 ([['OSError', 'OSError'], ['OSError', 'OSError']], [])"
    assert again == "True"


def test_an_epoll_of_a_childs_own_watches_the_same_with_the_same_data(run):
    out = run("""
import ctypes
pipes = [os.pipe() for _ in range(200)]  # more than one read of its description holds
client, accepted, server = connect()
inner, outer = select.epoll(), select.epoll()
for read, _ in pipes:
    inner.register(read, select.EPOLLIN)
inner.register(client, select.EPOLLIN)
outer.register(inner, select.EPOLLIN)
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]
foreign = select.epoll()
event = Event(select.EPOLLIN, 0x1234567890ABCDEF)
assert libc.epoll_ctl(foreign.fileno(), 1, pipes[7][0], ctypes.byref(event)) == 0
closed = os.dup(pipes[3][0])
inner.register(closed, select.EPOLLIN)
reused = os.open("/dev/zero", os.O_RDONLY)
os.dup2(pipes[4][0], closed)  # the number is another file's: it is not watched under that one
os.write(pipes[7][1], b"x")
accepted.send(b"for the parent")
def look():
    epolls = tuple(one.fileno() for one in (outer, inner, foreign))
    _native.isolate_streams(noted(client), epolls)
    got = Event()
    assert libc.epoll_wait(foreign.fileno(), ctypes.byref(got), 1, 0) == 1
    print(hex(got.data), [os.get_inheritable(one) for one in epolls])
    ready = dict(inner.poll(0))
    print(sorted(ready) == sorted((pipes[7][0], client.fileno())), client.recv(9))
    os.write(pipes[4][1], b"x")
    print(len(inner.poll(0)) == 3, len(outer.poll(0)))
    for read, _ in pipes:
        inner.unregister(read)
    inner.unregister(client)
    return inner.poll(0), outer.poll(0)
in_child(look)
os.read(pipes[4][0], 1)
print(len(inner.poll(0)), len(outer.poll(0)), client.recv(99).decode())
""")
    assert out.splitlines() == [
        "0x1234567890abcdef [False, False, False]",
        "True b''",
        "True 1",
        "([], [])",
        "2 1 for the parent",
    ]


def test_where_the_network_has_no_loopback_the_end_is_a_local_one(run_program):
    """A new network namespace has one that is down; without the right to make one, no test."""
    out = run_program(
        PRELUDE
        + """
import ctypes
clients = [connect(family)[0] for family in (socket.AF_INET, socket.AF_INET6)]
def look():
    if ctypes.CDLL(None).unshare(0x40000000):
        return "no right"
    _native.isolate_streams(noted(*clients), ())
    return [said(one) for one in clients]
in_child(look)
""",
        fresh=True,
    )
    end = "['BrokenPipeError', b'']"
    assert out.strip() in ("no right", f"[{end}, {end}]")


def test_with_any_number_of_free_files_each_stream_is_replaced(run):
    out = run("""
import resource
clients = [one for _ in range(3) for one in connect()[:1]]
_native.keep_spare_end()
def with_free(count):
    def look():
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
        highest = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, highest + 1))
        os.close(highest)
        for one in held:
            os.close(one)
        before = [inode for _, inode in noted(*clients)]
        _native.isolate_streams(noted(*clients), ())
        return [inode in before for _, inode in noted(*clients)], [said(one)[1] for one in clients]
    return look
for count in range(6):
    in_child(with_free(count))
""")
    assert out == "([False, False, False], [b'', b'', b''])\n" * 6


def test_numbers_that_were_used_again_make_no_ring_of_epolls(run):
    out = run("""
read, write = os.pipe()
first, second = select.epoll(), select.epoll()
for one, other in ((first, second), (second, first)):
    number = os.dup(read)
    one.register(number, select.EPOLLIN)
    os.dup2(other.fileno(), number)
os.write(write, b"x")
numbers = (first.fileno(), second.fileno(), read + 4, read + 5)
assert [os.readlink(f"/proc/self/fd/{one}") for one in numbers] == ["anon_inode:[eventpoll]"] * 4
def look():
    _native.isolate_streams((), numbers)
    return first.poll(0), second.poll(0)
in_child(look)
print(len(first.poll(0)), len(second.poll(0)))
""")
    assert out == "([], [])\n1 1\n"
