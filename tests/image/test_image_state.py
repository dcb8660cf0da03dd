"""What modules have seen and drawn while they were loaded: compared, drawn again, or said."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]


# -- files


def test_programs_add_to_a_log_that_a_module_has_read_and_opened(own_images: Images) -> None:
    log = own_images.folder / "app.log"
    settings = f"{{'filename': {str(log)!r}, 'level': 'INFO', 'format': '%(message)s'}}"
    log.write_text("")
    reads = f"import logging, os\nos.path.exists({str(log)!r}) and open({str(log)!r}).read()\n"
    own_images.module("logs", f"{reads}logging.basicConfig(**{settings})\n")
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


CACHE = """import os
PATH = {!r}
if not os.path.exists(PATH):
    os.makedirs(os.path.dirname(PATH))
    with open(PATH, "w") as file:
        file.write("made")
VALUE = open(PATH).read()
"""


def test_a_file_that_the_first_load_makes_is_one_that_programs_read(own_images: Images) -> None:
    path = own_images.folder / "cache" / "list"
    own_images.module("cached", CACHE.format(str(path)))
    source = "import cached; print(cached.VALUE, oct(os.stat(cached.PATH).st_mode), end=' ')"
    source = f"import os; {source}; print(oct(os.stat(os.path.dirname(cached.PATH)).st_mode))"
    by_python = own_images.python("-c", source)
    shutil.rmtree(path.parent)
    own_images.built("--preload", "cached")
    assert own_images.served("-c", source) == by_python
    path.write_text("edited")
    assert own_images.run("-c", source).out.startswith(b"edited ")
    shutil.rmtree(path.parent)
    assert own_images.run("-c", source) == by_python


# -- what the process was

HOLDS = {
    "name": "import os; FOUND = [os.path.basename(os.getcwd()).replace('-', '_')]",
    "above": "import os\ndef FOUND(at=os.path.dirname(os.path.dirname(os.getcwd()))): ...",
    "closure": "import os\ndef made(n):\n  return lambda: n\nFOUND = made((os.getcwd(), 1))",
    "instance": "import pathlib\nclass A: ...\nFOUND = A(); FOUND.n = pathlib.Path.cwd()",
    "cache": "import functools, os\n@functools.lru_cache\ndef FOUND(n): ...\nFOUND(os.getcwdb())",
    "key": "import multiprocessing as m; FOUND = [m.current_process().authkey]",
    "path": "import sys; FOUND = [*sys.path, 'more']",
}
NOTHING = """import inspect, os, multiprocessing, sys, tempfile, logging, uuid, random
os.path.realpath(os.getcwd())
inspect.stack()
sys.path.insert(0, "none")
sys.path.pop(0)
"""


def test_what_modules_hold_of_their_process_is_named(own_images: Images) -> None:
    readers = {
        "arguments": "import sys; FOUND = sys.argv[0]",
        "main": "import __main__; FOUND = getattr(__main__, '__file__', None)",
    }
    others = {"nothing": NOTHING, **readers}
    others["host"] = "import os; FOUND = os.uname().sysname"  # not the name
    for name, text in {**HOLDS, **others}.items():
        own_images.module(f"asks_{name}", text)
    names = ",".join(f"asks_{name}" for name in (*HOLDS, *others))
    own_images.built("--preload", names, "--allow=folder", "--allow=process", "--allow=arguments")
    found = {(note["code"], note["subject"]) for note in own_images.document()["notes"]}
    expected = {("process" if n == "key" else "folder", f"asks_{n}.FOUND") for n in HOLDS}
    assert found == {*expected, *(("arguments", f"asks_{name}") for name in readers)}
    source = "import asks_path, os, posix; print(os.getcwd is posix.getcwd, os.getcwd())"
    started = own_images.served("-c", source, cwd=own_images.folder)
    assert started == own_images.python("-c", source, cwd=own_images.folder)


LEAVES = """import gc, multiprocessing, os
from multiprocessing import util
gc.disable()
gc.set_threshold(77)
ITSELF = multiprocessing.current_process()
util.Finalize(None, print, args=("at the end",), exitpriority=1)
"""


def test_programs_find_the_collector_and_their_process_as_modules_left_them(
    own_images: Images,
) -> None:
    own_images.module("leaves", LEAVES)
    own_images.built("--preload", "leaves")
    source = (
        "import gc, leaves, multiprocessing as m, os; i = leaves.ITSELF; pid = os.fork(); "
        "print(gc.isenabled(), gc.get_threshold()[0], i is m.current_process(), "
        "i.pid == os.getpid(), flush=True); pid and os.wait()"
    )
    assert own_images.served("-c", source) == own_images.python("-c", source)
    source = f"import gc, leaves; gc.enable(); gc.set_threshold(9); {source}"
    assert own_images.served("-c", source) == own_images.python("-c", source)


def test_a_key_that_a_start_file_has_drawn_is_each_programs_own(own_images: Images) -> None:
    own_images.module("sitecustomize", "import multiprocessing\n")
    own_images.built("--preload", "json")
    source = "import multiprocessing as m; print(m.current_process().authkey)"
    assert own_images.served("-c", source).out != own_images.served("-c", source).out


def test_what_a_module_does_to_the_environment_and_to_streams_is_named(own_images: Images) -> None:
    own_images.module(
        "does",
        "import os\nos.environ.clear(); os.environ['PATH'] = '/bin'\nos.set_blocking(1, False)\n",
    )
    done = own_images.build("--preload", "does")
    assert "changes all variables" in done.stderr
    assert "changes its standard streams" in done.stderr


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
    assert own_images.served("-c", source).out == b"old [] ['mine']\n"
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
import hashlib, json, multiprocessing, os, random, secrets, sqlite3, ssl, tempfile, uuid
BASE = sqlite3.connect(":memory:")
def draw():
    return {
        "sqlite": BASE.execute("select hex(randomblob(8))").fetchone()[0],
        "another database": sqlite3.connect(":memory:").execute("select random()").fetchone()[0],
        "uuid1": uuid.uuid1().clock_seq, "uuid4": str(uuid.uuid4()),
        "openssl": ssl.RAND_bytes(8).hex(), "random": random.random(),
        "secrets": secrets.token_hex(8), "temporary file": tempfile.mktemp(),
        "kernel": os.urandom(8).hex(), "key": multiprocessing.current_process().authkey.hex(),
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
    one, other, third = (json.loads(own_images.served("-c", source).out) for _ in range(3))
    assert [key for key in one if one[key] == other[key] == third[key]] == []


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
