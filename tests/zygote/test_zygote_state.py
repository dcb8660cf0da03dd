"""What modules have seen and drawn while they were loaded: made again, drawn anew, or said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from zygotes import Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]


def module(zygotes: Zygotes, name: str, text: str) -> Path:
    """A module that zygotes and programs find, in a folder of its own."""
    path = zygotes.folder / "lib" / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    zygotes.environ["PYTHONPATH"] = str(path.parent)
    return path


# -- files

CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "rewritten": ("old", lambda path: path.write_text("new!")),
    "replaced": ("old", lambda path: path.with_suffix(".tmp").replace(path)),
    "removed": ("old", lambda path: path.unlink()),
    "made": ("", lambda path: path.write_text("new!")),
    "made with its folder": ("-", lambda path: (path.parent.mkdir(), path.write_text("new!"))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_data_that_a_module_has_read_is_what_it_is_now(own_zygotes: Zygotes, change: str) -> None:
    before, make = CHANGES[change]
    data = own_zygotes.folder / "data" / "settings.json"
    if before != "-":
        data.parent.mkdir()
        data.with_suffix(".tmp").write_text("new!")
    if before == "old":
        data.write_text(before)
    module(
        own_zygotes,
        "reads",
        f"try: FOUND = open({str(data)!r}).read()\nexcept OSError: FOUND = 0\n",
    )
    own_zygotes.pasture("start", "--preload", "reads", "--name", "x")
    source = "import reads; print(reads.FOUND)"
    assert "served" in own_zygotes.why("-c", source)
    make(data)
    assert own_zygotes.run("-c", source) == own_zygotes.python("-c", source)
    own_zygotes.wait_until_served(source)
    assert own_zygotes.run("-c", source) == own_zygotes.python("-c", source)


def test_data_that_a_module_writes_does_not_have_it_loaded_again(own_zygotes: Zygotes) -> None:
    log = own_zygotes.folder / "app.log"
    log.write_text("")
    module(
        own_zygotes, "logs", f"old = open({str(log)!r}).read()\nopen({str(log)!r}, 'a').close()\n"
    )
    own_zygotes.pasture("start", "--preload", "logs", "--name", "x")
    log.write_text("more")
    assert "served by the zygote: x" in own_zygotes.why("-c", "import logs")
    assert own_zygotes.status()["x"]["made"] == 1


def test_programs_add_to_a_log_that_a_module_opened(own_zygotes: Zygotes) -> None:
    log = own_zygotes.folder / "app.log"
    settings = f"{{'filename': {str(log)!r}, 'level': 'INFO', 'format': '%(message)s'}}"
    module(own_zygotes, "logs", f"import logging\nlogging.basicConfig(**{settings})\n")
    own_zygotes.pasture("start", "--preload", "logs", "--name", "x")
    source = "import logs, sys; logs.logging.info(sys.argv[1])"

    def adds(text: str, said: str) -> None:
        assert said in own_zygotes.why("-c", source, text)

    adds("one", "served by the zygote: x")
    adds("two", "served by the zygote: x")
    assert log.read_text() == "one\ntwo\n"
    log.rename(own_zygotes.folder / "older.log")
    log.write_text("new\n")  # as logrotate's create does: another file of that name
    adds("three", "served by the zygote: x")
    assert log.read_text() == "new\nthree\n"
    log.unlink()
    adds("four", "a file cannot be opened that the image has open")
    assert log.read_text() == "four\n"


def test_a_named_pipe_in_the_place_of_a_file_that_is_open_is_not_waited_for(
    own_zygotes: Zygotes,
) -> None:
    data = own_zygotes.folder / "data"
    data.write_text("found")
    opened = f"ctypes.CDLL(None).open({bytes(data)!r}, os.O_RDONLY | os.O_CLOEXEC)"  # unseen
    module(
        own_zygotes,
        "opens",
        f"import ctypes, os, sys\nNUMBER = sys.argv[-1] != 'not' and {opened}\n",
    )
    own_zygotes.pasture("start", "--preload", "opens", "--name", "x")
    source = "import fcntl, opens, os; n = opens.NUMBER; print(os.read(n, 9))\n"
    source += "print(fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK)"
    assert "served by the zygote: x" in own_zygotes.why("-c", source)
    assert own_zygotes.run("-c", source).out == b"b'found'\n0\n"
    data.unlink()
    os.mkfifo(data)
    why = own_zygotes.why("-c", "import opens", "not")
    assert "a file cannot be opened that the image has open" in why


# -- what the process was

ASKS = {
    "directory": "import os; FOUND = os.getcwd()",
    "relative": "try: open('settings.toml')\nexcept OSError: pass",
    "process": "from os import getpid\nFOUND = getpid()",
    "processors": "import os; FOUND = os.sched_getaffinity(0)",
    "random": "import secrets; FOUND = secrets.token_hex(8)",
}


def test_a_module_that_looks_at_its_process_is_named(own_zygotes: Zygotes) -> None:
    for name, text in ASKS.items():
        module(own_zygotes, f"asks_{name}", text)
    module(own_zygotes, "asks_nothing", "import multiprocessing, tempfile, logging, uuid, random")
    names = ",".join(f"asks_{name}" for name in (*ASKS, "nothing"))
    own_zygotes.pasture("start", "--preload", names, "--name", "x")
    own_zygotes.pasture("start", "--preload", "json", "--name", "above", "--base", "x")
    for zygote in ("x", "above"):
        notes = own_zygotes.status()[zygote]["notes"]
        found = {(note["code"], note["subject"]) for note in notes}
        assert found == {(name, f"asks_{name}") for name in ASKS}, zygote
    assert "asks_process looked at the id of its process" in own_zygotes.pasture("status").stdout
    source = (
        "import asks_process, json, os, posix, sys; print(os.getcwd is posix.getcwd, "
        "asks_process.getpid is posix.getpid, type(os.getcwd), os.getcwd() == sys.argv[1])"
    )
    here = str(own_zygotes.folder)
    environ = {**own_zygotes.environ, "PASTURE_ZYGOTE": "above"}
    served = own_zygotes.run("-c", source, here, cwd=here, env=environ)
    assert served == own_zygotes.python("-c", source, here, cwd=here)


def test_no_audit_hook_is_left_in_a_program(zygotes: Zygotes) -> None:
    source = (
        "import sys, pasture_zygote.observed as o; f = []; o.Observed._hear = "
        "lambda *a: f.append(a); sys.audit('open', '/a', 'r', 0); print(f)"
    )
    assert zygotes.run("-c", source).out == b"[]\n"


HEARS = "import sys\nHEARD = []\nsys.addaudithook(lambda event, args: HEARD.append(event))\n"
REFUSES = """import sys
def hook(event, args):
    if event == "sys.addaudithook":
        raise {}("no more")
sys.addaudithook(hook)
"""


def test_data_is_watched_beside_an_audit_hook_of_others(own_zygotes: Zygotes) -> None:
    data = own_zygotes.folder / "settings.json"
    data.write_text("old")
    module(own_zygotes, "sitecustomize", HEARS)
    module(own_zygotes, "reads", f"FOUND = open({str(data)!r}).read()\n")
    own_zygotes.pasture("start", "--preload", "reads", "--name", "x")
    source = (
        "import reads, sitecustomize, sys, pasture_zygote.observed as o; f = []; "
        "o.Observed._hear = lambda *a: f.append(a); n = len(sitecustomize.HEARD); "
        "sys.audit('mine'); print(reads.FOUND, f, sitecustomize.HEARD[n:])"
    )
    assert "served" in own_zygotes.why("-c", source)
    assert own_zygotes.run("-c", source).out == b"old [] ['mine']\n"
    data.write_text("new!")
    assert own_zygotes.run("-c", source).out == b"new! [] ['mine']\n"


@pytest.mark.parametrize("error", ["RuntimeError", "PermissionError"])
def test_no_zygote_is_made_where_its_audit_hook_is_refused(
    own_zygotes: Zygotes, error: str
) -> None:
    module(own_zygotes, "refuses", REFUSES.format(error))
    own_zygotes.pasture("start", "--preload", "refuses", "--name", "low")
    done = own_zygotes.pasture(
        "start", "--preload", "json", "--name", "x", "--base", "low", check=False
    )
    assert done.returncode != 0
    assert "another audit hook refuses one more" in done.stderr
    assert "Traceback" not in done.stderr


# -- start files


def test_a_start_file_that_is_made_later_is_noticed(own_zygotes: Zygotes) -> None:
    module(own_zygotes, "unrelated", "")
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    source = "import builtins; print(hasattr(builtins, 'CUSTOMIZED'))"
    words = ["-c", source]
    assert own_zygotes.why(*words).startswith("pasture-python: served")
    module(own_zygotes, "sitecustomize", "import builtins; builtins.CUSTOMIZED = True\n")
    assert own_zygotes.run(*words) == own_zygotes.python(*words)
    own_zygotes.wait_until_served(source)
    assert own_zygotes.run(*words) == own_zygotes.python(*words)


def test_a_folder_of_the_search_path_that_is_made_later_is_noticed(own_zygotes: Zygotes) -> None:
    own_zygotes.environ["PYTHONPATH"] = str(own_zygotes.folder / "later" / "lib")
    own_zygotes.pasture("start", "--preload", "colorsys", "--name", "x")
    words = ["-c", "import colorsys; print(hasattr(colorsys, 'MINE'))"]
    assert own_zygotes.run(*words).out == b"False\n"
    (own_zygotes.folder / "later" / "lib").mkdir(parents=True)
    (own_zygotes.folder / "later" / "lib" / "colorsys.py").write_text("MINE = 1\n")
    assert own_zygotes.run(*words).out == b"True\n"


def test_a_module_that_was_looked_for_in_vain_is_noticed(own_zygotes: Zygotes) -> None:
    module(own_zygotes, "seeks", "try: import fast_variant as v\nexcept ImportError: v = None\n")
    own_zygotes.pasture("start", "--preload", "seeks", "--name", "x")
    words = ["-c", "import seeks; print(seeks.v is None)"]
    assert own_zygotes.run(*words).out == b"True\n"
    module(own_zygotes, "fast_variant", "")
    assert own_zygotes.run(*words).out == b"False\n"


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
    own_zygotes: Zygotes,
) -> None:
    module(own_zygotes, "draws", DRAWS)
    own_zygotes.pasture("start", "--preload", "draws", "--name", "x")
    own_zygotes.pasture("start", "--preload", "decimal", "--name", "above", "--base", "x")
    source = "import draws, json; print(json.dumps(draws.draw()))"
    for name in ("x", "above"):
        environ = {"PASTURE_ZYGOTE": name}
        assert own_zygotes.why("-c", source, environ=environ).endswith(f"the zygote: {name}")
        one, other, third = (
            json.loads(own_zygotes.run("-c", source, env={**own_zygotes.environ, **environ}).out)
            for _ in range(3)
        )
        assert [key for key in one if one[key] == other[key] == third[key]] == []


def test_a_program_under_a_pid_that_an_image_had_is_run_by_the_interpreter(
    own_zygotes: Zygotes,
) -> None:
    module(
        own_zygotes,
        "any_pid",
        "from pasture_zygote import begin\n"
        "class Any(set):\n    def __contains__(self, pid): return True\n"
        "begin.pids = Any()\n",
    )
    own_zygotes.pasture("start", "--preload", "any_pid", "--name", "x")
    assert "had this process's id" in own_zygotes.why("-c", "pass", environ={"PASTURE_ZYGOTE": "x"})
    environ = {**own_zygotes.environ, "PASTURE_ZYGOTE": "x"}
    assert own_zygotes.run("-c", "print(1)", env=environ).out == b"1\n"
