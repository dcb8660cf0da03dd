"""What modules have seen and drawn while they were loaded: compared, drawn again, or said."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]


# -- files


def test_data_that_a_module_writes_itself_may_change(own_images: Images) -> None:
    log = own_images.folder / "app.log"
    log.write_text("")
    own_images.module("logs", f"old = open({str(log)!r}).read()\nopen({str(log)!r}, 'a').close()\n")
    own_images.built("--preload", "logs")
    log.write_text("more")
    assert own_images.why("-c", "import logs") == ""


def test_programs_add_to_a_log_that_a_module_opened(own_images: Images) -> None:
    log = own_images.folder / "app.log"
    settings = f"{{'filename': {str(log)!r}, 'level': 'INFO', 'format': '%(message)s'}}"
    own_images.module("logs", f"import logging\nlogging.basicConfig(**{settings})\n")
    own_images.built("--preload", "logs")
    source = "import logs, sys; logs.logging.info(sys.argv[1])"

    def adds(text: str, said: str) -> None:
        why = own_images.why("-c", source, text)
        assert said in why and bool(said) == bool(why)

    adds("one", "")
    adds("two", "")
    assert log.read_text() == "one\ntwo\n"
    log.rename(own_images.folder / "older.log")
    log.write_text("new\n")  # as logrotate's create does: another file of that name
    adds("three", "")
    assert log.read_text() == "new\nthree\n"
    log.unlink()
    adds("four", "a file cannot be opened that the image has open")
    assert log.read_text() == "four\n"


def test_a_named_pipe_in_the_place_of_a_file_that_is_open_is_not_waited_for(
    own_images: Images,
) -> None:
    data = own_images.folder / "data"
    data.write_text("found")
    opened = f"ctypes.CDLL(None).open({bytes(data)!r}, os.O_RDONLY | os.O_CLOEXEC)"  # unseen
    own_images.module(
        "opens",
        f"import ctypes, os, sys\nNUMBER = sys.argv[-1] != 'not' and {opened}\n",
    )
    own_images.built("--preload", "opens")
    source = "import fcntl, opens, os; n = opens.NUMBER; print(os.read(n, 9))\n"
    source += "print(fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK)"
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"b'found'\n0\n"
    data.unlink()
    os.mkfifo(data)
    assert "a file has changed" in own_images.why("-c", "import opens", "not")


# -- what the process was

HOLDS = {
    "name": ("import os; FOUND = [os.path.basename(os.getcwd()).replace('-', '_')]", "folder"),
    "above": ("import os\ndef FOUND(at=os.path.dirname(os.getcwd())): ...", "folder"),
    "process": ("from os import getpid\nFOUND = getpid()", "pid"),
    "text": ("import os; FOUND = f'worker-{os.getpid()}'", "pid"),
    "key": ("import os; FOUND = {os.getpid(): 1}", "pid"),
    "closure": (
        "import os\ndef made(n):\n  return lambda: n\nFOUND = made(os.getpid())",
        "pid",
    ),
    "instance": ("import os\nclass A: ...\nFOUND = A(); FOUND.n = os.getpid()", "pid"),
    "random": ("import secrets; FOUND = secrets.token_hex(8)", "differs"),
    "time": ("import datetime; FOUND = datetime.datetime.now()", "differs"),
    "arguments": ("import sys; FOUND = sys.argv[0]", "differs"),
    "array": ("import array, random; FOUND = array.array('d', [random.random()])", "differs"),
}
NOTHING = "import os, multiprocessing, tempfile, logging, uuid, random\nos.getcwd()"


def test_what_modules_hold_of_their_process_is_named(own_images: Images) -> None:
    for name, (text, _) in {**HOLDS, "nothing": (NOTHING, "")}.items():
        own_images.module(f"asks_{name}", text)
    names = ",".join(f"asks_{name}" for name in (*HOLDS, "nothing"))
    done = own_images.build("--preload", names, "--allow", "folder")
    found = {(note["code"], note["subject"]) for note in own_images.document()["notes"]}
    expected = {(code, f"asks_{name}.FOUND") for name, (_, code) in HOLDS.items()}
    expected.add(("arguments", "asks_arguments"))
    assert found == expected
    assert "asks_process.FOUND holds the id of its process" in done.stdout
    source = (
        "import asks_process, json, os, posix, sys; print(os.getcwd is posix.getcwd, "
        "asks_process.getpid is posix.getpid, type(os.getcwd), os.getcwd() == sys.argv[1])"
    )
    here = str(own_images.folder)
    started = own_images.run("-c", source, here, cwd=here)
    assert started == own_images.python("-c", source, here, cwd=here)


HEARS = "import sys\nHEARD = []\nsys.addaudithook(lambda event, args: HEARD.append(event))\n"
REFUSES = """import sys
def hook(event, args):
    if event == "sys.addaudithook":
        raise {}("no more")
sys.addaudithook(hook)
"""


def test_data_is_watched_beside_an_audit_hook_of_others(own_images: Images) -> None:
    data = own_images.folder / "settings.json"
    data.write_text("old")
    own_images.module("sitecustomize", HEARS)
    own_images.module("reads", f"FOUND = open({str(data)!r}).read()\n")
    own_images.built("--preload", "reads")
    source = (
        "import reads, sitecustomize, sys, pasture_image.inside.observing as o; f = []; "
        "o.Observed._hear = lambda *a: f.append(a); n = len(sitecustomize.HEARD); "
        "sys.audit('mine'); print(reads.FOUND, f, sitecustomize.HEARD[n:])"
    )
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"old [] ['mine']\n"
    data.write_text("new!")
    assert own_images.run("-c", source).out == b"new! [] ['mine']\n"


@pytest.mark.parametrize("error", ["RuntimeError", "PermissionError"])
def test_no_image_is_made_where_its_audit_hook_is_refused(own_images: Images, error: str) -> None:
    own_images.module("sitecustomize", REFUSES.format(error))
    done = own_images.build("--preload", "json")
    assert done.returncode != 0
    assert "another audit hook refuses one more" in done.stderr
    assert "Traceback" not in done.stderr


# -- generators

DRAWS = """
import hashlib, json, os, random, secrets, sqlite3, ssl, tempfile, uuid
BASE = sqlite3.connect(":memory:")
def draw():
    return {
        "sqlite": BASE.execute("select hex(randomblob(8))").fetchone()[0],
        "another database": sqlite3.connect(":memory:").execute("select random()").fetchone()[0],
        "uuid1": uuid.uuid1().clock_seq, "uuid4": str(uuid.uuid4()),
        "openssl": ssl.RAND_bytes(8).hex(), "random": random.random(),
        "secrets": secrets.token_hex(8), "temporary file": tempfile.mktemp(),
        "kernel": os.urandom(8).hex(),
        "system": random.SystemRandom().random(),
        **({"numpy": numpy.random.random()} if numpy else {}),
        **({"uuid7": str(uuid.uuid7())} if hasattr(uuid, "uuid7") else {}),
    }
try:
    import numpy
except ImportError:
    numpy = None
draw()
"""


def test_generators_that_were_used_while_a_module_was_loaded_are_the_programs_own(
    own_images: Images,
) -> None:
    own_images.module("draws", DRAWS)
    own_images.built("--preload", "draws", "--allow=network", "--allow=process")
    source = "import draws, json; print(json.dumps(draws.draw()))"
    assert own_images.why("-c", source) == ""
    one, other, third = (json.loads(own_images.run("-c", source).out) for _ in range(3))
    assert [key for key in one if one[key] == other[key] == third[key]] == []


def test_a_program_under_a_pid_that_an_image_had_is_run_by_the_interpreter(
    own_images: Images,
) -> None:
    own_images.module(
        "any_pid",
        "from pasture_image.inside import begin\n"
        "class Any(set):\n    def __contains__(self, pid): return True\n"
        "begin.pids = Any()\n",
    )
    done = own_images.build("--preload", "any_pid")
    assert "had this process's id" in done.stderr  # of the program that the build starts itself


LOOPS = """
import asyncio, os, select, socket
reader, writer = os.pipe()
os.set_blocking(reader, False)
epoll = select.epoll()
epoll.register(reader, select.EPOLLIN | select.EPOLLET)
one, other = socket.socketpair()
event = os.eventfd(3, os.EFD_SEMAPHORE | os.EFD_CLOEXEC)
loop = asyncio.new_event_loop()
def use():
    assert epoll.poll(0) == []
    os.write(writer, b"a")
    assert epoll.poll(0) == [(reader, select.EPOLLIN)] and epoll.poll(0) == []
    one.sendall(b"b")
    other.sendall(b"c")
    print(os.read(reader, 9), other.recv(9), one.recv(9), os.eventfd_read(event))
    print([os.get_blocking(n) for n in (reader, writer)], os.get_inheritable(reader))
    loop.call_later(0.01, loop.call_soon_threadsafe, loop.stop)
    print(loop.run_forever())
"""


def test_each_program_has_event_loops_of_its_own(own_images: Images) -> None:
    own_images.module("loops", LOOPS)
    own_images.built("--preload", "loops")
    source = "import loops; loops.use()"
    assert own_images.why("-c", source) == ""
    running = [own_images.popen(["-c", source], stdout=subprocess.PIPE) for _ in range(3)]
    outs = {process.communicate()[0] for process in running}
    assert outs == {own_images.python("-c", source).out}
    assert b"b'a' b'b' b'c' 1" in outs.pop()


@pytest.mark.parametrize(
    "text",
    [
        "import os; r, w = os.pipe(); os.write(w, b'unread')",
        "import os; r, w = os.pipe(); os.close(w)",
        "import os; r, w = os.pipe(); also = os.dup(w)",
        "import socket; a, b = socket.socketpair(); b.close()",
        "import socket; a, b = socket.socketpair(); a.send(b'unread')",
        "import select, os; e = select.epoll(); os.mkfifo(f := '/tmp/' + os.urandom(8).hex());"
        " n = os.open(f, os.O_RDWR); os.unlink(f); e.register(n)",
        "import signal, os; n = os.pidfd_open(os.getpid())",
    ],
)
def test_what_leads_out_of_the_process_or_holds_something_is_refused(
    own_images: Images, text: str
) -> None:
    own_images.module("leads", text)
    done = own_images.build("--preload", "leads")
    assert (done.returncode, "keeps open" in done.stderr) == (17, True), done.stderr
