"""Clients of the standard library that were used before a fork: no child reads another's answer."""

import pytest

SERVERS = """
import http.server, os, signal, socket, socketserver, sys, tempfile, threading, time, xmlrpc.server
from pasture.fork_safety import streams

class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            time.sleep(0.002)
            self.wfile.write(line)

class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(0.002)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *_): pass

class Calls(xmlrpc.server.SimpleXMLRPCRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass

class Threads(socketserver.ThreadingMixIn): daemon_threads = True
class Lined(Threads, socketserver.TCPServer): pass
class Lined6(Lined): address_family = socket.AF_INET6
class Named(Threads, socketserver.UnixStreamServer): pass
class Called(Threads, xmlrpc.server.SimpleXMLRPCServer): pass

folder = tempfile.TemporaryDirectory()
path = folder.name + "/lines"
lines, lines6, named = Lined(("127.0.0.1", 0), Lines), Lined6(("::1", 0), Lines), Named(path, Lines)
pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
calls = Called(("127.0.0.1", 0), Calls)
calls.register_function(lambda word: word, "echo")
serving = os.fork()
if serving == 0:
    for server in (lines, lines6, named, pages, calls):
        threading.Thread(target=server.serve_forever).start()
    signal.pause()
for server in (lines, lines6, named, pages, calls):
    server.socket.close()

ROUNDS, CHILDREN, LIMIT_S = 12, 4, 300

def result_of(ask, word):
    try:
        got = ask(word)
        return "o" if got == word else "F"
    except Exception as error:
        return "e"

def child(ask, begin, result):
    signal.alarm(LIMIT_S)
    os.read(begin, 1)  # all at once
    words = (f"{os.getpid()}-{number}" for number in range(ROUNDS))
    os.write(result, "".join(result_of(ask, word) for word in words).encode() + b" ")
    os._exit(0)

def compare(make, armed=True):
    # What each of several children got: own answers, foreign ones, errors. Then the parent.
    streams.begin()
    streams.arm()
    ask = make()
    assert ask("parent") == "parent"
    if armed:
        streams.note()
    begin, go = os.pipe()
    read, result = os.pipe()
    pids = []
    for _ in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            child(ask, begin, result)
        pids.append(pid)
    os.write(go, b"x" * CHILDREN)
    for pid in pids:
        os.waitpid(pid, 0)
    print(*sorted(os.read(read, 9999).decode().split()))
    print("".join(result_of(ask, f"parent-{number}") for number in range(3)))
    sys.stdout.flush()
    os.kill(serving, signal.SIGKILL)
    os._exit(0)

def bare(family, address):
    def make():
        one = socket.socket(family)
        one.connect(address)
        def ask(word):
            one.sendall(word.encode() + b"\\n")
            answer = b""
            while not answer.endswith(b"\\n"):
                answer += (got := one.recv(99))
                if not got: raise EOFError
            return answer.decode().strip()
        return ask
    return make
"""

RECONNECTS, ONCE, NEVER = "o" * 12, "e" + "o" * 11, "e" * 12

CLIENTS = {
    "tcp": ("compare(bare(socket.AF_INET, lines.server_address))", NEVER),
    "tcp6": ("compare(bare(socket.AF_INET6, lines6.server_address))", NEVER),
    "unix": ("compare(bare(socket.AF_UNIX, path))", NEVER),
    "http.client": (
        """
import http.client
def make():
    one = http.client.HTTPConnection(*pages.server_address)
    def ask(word):
        one.request("GET", word)
        return one.getresponse().read().decode()
    return ask
compare(make)
""",
        ONCE,
    ),
    "xmlrpc": (
        """
import xmlrpc.client
compare(lambda: xmlrpc.client.ServerProxy("http://%s:%d" % calls.server_address).echo)
""",
        RECONNECTS,
    ),
    "asyncio, a loop of before": (
        """
import asyncio
def make():
    loop, ends = asyncio.new_event_loop(), []
    async def go(word):
        if not ends:
            ends.extend(await asyncio.open_connection(*lines.server_address))
        ends[1].write(word.encode() + b"\\n")
        answer = await ends[0].readline()
        if not answer:
            ends.clear()
            raise EOFError
        return answer.decode().strip()
    return lambda word: loop.run_until_complete(go(word))
compare(make)
""",
        ONCE,
    ),
    "selectors": (
        """
import selectors
def make():
    selector, ends = selectors.DefaultSelector(), []
    def ask(word):
        if not ends:
            ends.append(socket.create_connection(lines.server_address))
            selector.register(ends[0], selectors.EVENT_READ)
        ends[0].sendall(word.encode() + b"\\n")
        assert selector.select(20)
        answer = ends[0].recv(99)
        if not answer:
            selector.unregister(ends[0])
            ends.pop().close()
            raise EOFError
        return answer.decode().strip()
    return ask
compare(make)
""",
        ONCE,
    ),
    "a manager's proxy": (
        """
import multiprocessing
def make():
    global manager
    manager = multiprocessing.get_context("fork").Manager()
    known = manager.dict()
    def ask(word):
        known[word] = word
        return known.pop(word)
    return ask
compare(make)
""",
        RECONNECTS,
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_no_child_reads_another_ones_answer_and_the_parent_goes_on(run_program, client):
    source, each = CLIENTS[client]
    children, parent = run_program(SERVERS + source).splitlines()
    assert children.split() == [each] * 4
    assert parent == "ooo"


def test_without_a_dead_end_they_do(run_program):
    """What the other tests compare with; more rounds until it shows."""
    source = CLIENTS["tcp"][0].replace("address))", "address), armed=False)")
    for _ in range(20):
        children, _ = run_program(SERVERS.replace("4, 300", "4, 2") + source).splitlines()
        if set(children) - set("o "):
            return
    pytest.fail("children of plain Python have read their own answers alone")


def test_a_seal_under_a_default_timeout_leaves_sockets_blocking(run_program):
    out = run_program("""
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.setdefaulttimeout(5)
client = socket.create_connection(server.getsockname())
client.settimeout(None)
pasture.seal()
print(os.get_blocking(client.fileno()), socket.getdefaulttimeout())
""")
    assert out == "True 5.0\n"


def test_what_is_opened_before_the_application_or_after_the_note_is_the_childs_too(run_program):
    out = run_program("""
import socket
from pasture.fork_safety import streams
server = socket.create_server(("127.0.0.1", 0))
def connect():
    client = socket.create_connection(server.getsockname())
    return client, client.fileno(), os.fstat(client.fileno()).st_ino
there = connect()
streams.begin(); streams.arm()
own, kept = connect(), connect()
streams.keep(kept[1])
streams.note()
def look(*some):
    if os.fork() == 0:
        print([os.fstat(number).st_ino == inode for _, number, inode in some])
        sys.exit()
    os.wait()
look(there, own, kept)
later = connect()
look(there, own, kept, later)
""")
    assert out == "[True, False, True]\n[True, False, True, True]\n"


def test_a_child_keeps_no_descriptor_that_was_there_to_isolate_it(run_program):
    out = run_program("""
from pasture.fork_safety import streams
before = len(os.listdir("/proc/self/fd"))
streams.begin(); streams.arm(); streams.note()
if os.fork() == 0:
    print(len(os.listdir("/proc/self/fd")) - before)
    sys.exit()
os.wait()
""")
    assert out == "0\n"


def test_an_epoll_that_a_library_has_made_again_at_the_fork_is_its_own(run_program):
    out = run_program("""
import os, select
from pasture.fork_safety import streams
read, write = os.pipe()
streams.begin()
theirs, kept = select.epoll(), select.epoll()
theirs.register(read, select.EPOLLIN)
kept.register(read, select.EPOLLIN)
number = theirs.fileno()
def make_again():  # as a handler of pthread_atfork, before the hooks of Python
    global made
    made = select.epoll()
    made.register(write, select.EPOLLOUT)
    os.dup2(made.fileno(), number)
os.register_at_fork(after_in_child=make_again)
streams.arm()
streams.note()
if os.fork() == 0:
    made.unregister(write)
    kept.unregister(read)
    print(theirs.poll(0), flush=True)
    os._exit(0)
os.wait()
os.write(write, b"x")
print(len(theirs.poll(0)), len(kept.poll(0)))
""")
    assert out == "[]\n1 1\n"
