"""A program out of a file is the program that `python` would run, only sooner."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

import pytest
from images import STUB, TIMEOUT_S, Images

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parent.parent / "programs"
STDOUT_LOST = 120
SIZES = Path(__file__).parents[1] / "unit" / "sizes.toml"


@pytest.mark.interpreter
def test_programs_out_of_a_file_are_those_that_python_runs(images: Images, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, changing\nprint(sys.argv, changing.ANSWER())\n")
    programs = [
        (("-c", "import sys; print(sys.argv, sys.flags, sys.prefix, sys.executable)", "a"), b""),
        (("-c", "import os; print(sorted(os.environ), os.getcwd()); os.system('echo $HOME')"), b""),
        (("-m", "json.tool"), b'{"a": [1, 2]}'),
        ((str(script), "a", "b"), b""),
        ((), b"print(__name__, 7 * 6)"),
        (("-c", "raise SystemExit(300)"), b""),
        (("-c", "def f(): 1/0\nf()"), b""),
        (("-c", "a b"), b""),
        (("-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"), b""),
        (("-c", "class A:\n  def __del__(self): print('del')\na = A(); b = A(); b.b = b"), b""),
        (("-c", "import os\nif not os.fork(): os._exit(3)\nprint(os.wait()[1])"), b""),
    ]
    assert images.why() == ""
    for words, given in programs:
        by_image = images.run(*words, input=given)
        assert by_image == images.python(*words, input=given), words
    modules = images.run("-c", "import sys; print('changing' in sys.modules)")
    assert modules.out == b"True\n"


@pytest.mark.parametrize("word", ["0", "off", "No", "FALSE"])
def test_pasture_off_means_python(images: Images, word: str) -> None:
    assert images.why(environ={"PASTURE": word}).endswith("PASTURE is off")
    assert images.why(environ={"PASTURE": "seal"}) == ""


def ways_to_end() -> list[str]:
    listed = subprocess.run(
        [sys.executable, "-c", "import exit_ways; print(*exit_ways.WAYS)"],
        cwd=PROGRAMS,
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


@pytest.mark.interpreter
def test_programs_out_of_a_file_end_in_each_way_as_by_python(images: Images) -> None:
    file = images.folder / "left"
    words = (str(PROGRAMS / "exit_ways.py"), "main", "", str(file))
    assert images.why(*words, "run_to_the_end") == ""
    differs = {}
    for way in ways_to_end():
        seen = []
        for run in (images.python, images.run):
            file.unlink(missing_ok=True)
            ended = run(*words, way)
            left = file.read_text() if file.exists() else None
            errors = b"" if ended.status == STDOUT_LOST else ended.err
            seen.append((ended.status, ended.out, re.sub(b"0x[0-9a-f]+", b"ADDRESS", errors), left))
        if seen[0] != seen[1]:
            differs[way] = seen
    assert differs == {}


COLLECTED_AT_THE_END = """
import gc, os, sys, types
class Object:
    def __init__(self, name): self.name, self.self = name, self
    def __del__(self, write=os.write): write(1, f"del {self.name}\\n".encode())
def report(phase, info, write=os.write): write(1, f"{phase} {info['generation']}\\n".encode())
Object("garbage")
if sys.argv[1] == "off": gc.disable()
gc.callbacks.append(report)
kept = sys.modules["kept"] = types.ModuleType("kept")
kept.held = Object("held by a module that is kept")
def keep(module=kept): pass
sys.modules["changing"].keep = keep  # is the image's
"""


@pytest.mark.interpreter
@pytest.mark.parametrize("collection", ["on", "off"])
def test_cycles_are_collected_at_the_end_as_by_python(images: Images, collection: str) -> None:
    source = f"import changing\n{COLLECTED_AT_THE_END}"
    by_python = images.python("-c", source, collection)
    assert by_python.out.count(b"del ") == 2
    assert images.run("-c", source, collection) == by_python


@pytest.mark.skipif(sys.version_info < (3, 15), reason="imports are lazy from 3.15 on")
def test_an_image_that_was_built_with_lazy_imports_ends_its_programs_quietly(
    own_images: Images,
) -> None:
    own_images.environ["PYTHON_LAZY_IMPORTS"] = "all"
    own_images.built("--preload", "json,asyncio")
    source = "import sys, ssl; print(sys.get_lazy_imports_filter(), sys.get_lazy_imports())"
    ended = own_images.run("-c", source)
    assert ended == own_images.python("-c", source)
    assert (ended.err, own_images.why()) == (b"", "")


@pytest.mark.once
def test_nothing_lies_in_an_image_but_what_is_meant_to(own_images: Images) -> None:
    """With all that a build can do: a rehearsal, requests, other processors."""
    own_images.module("warmed_site", APPLICATION)
    rehearsal = own_images.module("rehearsal", "import json\n")
    own_images.built(
        *("--preload", "warmed_site", "--warm", "/"),
        *("--rehearse", str(rehearsal), "--rehearse-imports", "--cpu", "native"),
    )
    source = "import sys; print(*(n for n in sys.modules if n.startswith('pasture_image.')))"
    ended = own_images.run("-c", source)
    found = {name.split(".")[1] for name in ended.out.decode().split()}
    assert (own_images.why("-c", source), found) == ("", {"inside"})


@pytest.mark.once
def test_a_program_carries_no_more_of_pasture_than_its_row(own_images: Images) -> None:
    own_images.built("--preload", "json")
    source = (
        "import sys; print(sum(n.partition('.')[0].startswith('pasture') for n in sys.modules))"
    )
    row = tomllib.loads(SIZES.read_text())["counts"]["modules_in_an_image"]
    assert row * 0.98 <= int(own_images.run("-c", source).out) <= row


DRAWN = (
    "import random, uuid, ssl, secrets, tempfile, os, multiprocessing.process as p\n"
    "from sqlite3 import connect\n"
    "print(random.random(), uuid.uuid1(), uuid.uuid4(), ssl.RAND_bytes(8), secrets.token_hex(),"
    " tempfile.mktemp(), p.current_process().authkey.hex(),"
    " connect(':memory:').execute('select random()').fetchone(), sep='\\n')"
)


@pytest.mark.once
def test_two_programs_out_of_a_file_draw_nothing_twice(images: Images) -> None:
    first, second = (images.run("-c", DRAWN).out.splitlines() for _ in range(2))
    assert len(first) == len(second) == 8
    assert not set(first) & set(second)


BY_CELERY = (
    "import os, billiard.process as p; from celery.utils.nodenames import gethostname as asked;"
    "asked(); print(p.current_process().authkey.hex(), p.ORIGINAL_DIR == os.getcwd(), asked.misses)"
)


@pytest.mark.once
def test_programs_of_celery_have_a_key_a_directory_and_a_host_of_their_own(
    own_images: Images, tmp_path: Path
) -> None:
    own_images.module("asks", "from celery.utils.nodenames import gethostname\ngethostname()\n")
    done = own_images.build("--preload", "asks,billiard.process")
    assert done.returncode == 0 and "billiard" not in done.stderr + done.stdout, done
    assert own_images.why(cwd=tmp_path) == ""
    first, second = (own_images.run("-c", BY_CELERY, cwd=tmp_path).out.split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1:] == [b"True", b"1"]


@pytest.mark.once
def test_an_image_says_what_it_holds_and_depends_on(images: Images, tmp_path: Path) -> None:
    path = tmp_path / "image.json"
    shown = images.pasture("show", str(images.image), "--json", str(path))
    assert shown.returncode == 0, shown.stderr
    document = json.loads(path.read_text())
    assert {"json", "changing", "pasture"} <= set(document["modules"])
    assert str(images.lib / "changing.py") in document["files"]
    assert str(images.lib / "answer.so") in document["libraries"]
    assert "PYTHONPATH" in document["variables"]
    assert document["holds"] == ["PYTHONPATH"]
    assert "changing" in document["preload"] and "hash seed" in shown.stdout
    assert images.image.stat().st_mode & 0o777 == 0o600


@pytest.mark.once
def test_a_program_goes_on_while_another_image_takes_the_place_of_its_own(
    own_images: Images, images: Images
) -> None:
    """A file is written aside and renamed, so what is mapped stays what it was."""
    shutil.copyfile(images.image, own_images.image)
    source = "import json; print(1, flush=True); input(); print(json.dumps([2]), json.__name__)"
    environ = {**images.environ, "PASTURE_IMAGE": str(own_images.image)}
    running = subprocess.Popen(
        [STUB, "-c", source], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"1\n"
    assert str(own_images.image) in Path(f"/proc/{running.pid}/maps").read_text()
    own_images.built("--preload", "decimal")
    out, _ = running.communicate(b"\n", timeout=TIMEOUT_S)
    assert (running.returncode, out) == (0, b"[2] json\n")
    assert own_images.why() == ""


APPLICATION = """\
import os
served = []
def application(environ, start_response):
    import wave  # loaded by the first request
    served.append(environ["PATH_INFO"])
    start_response("200 OK" if environ["PATH_INFO"] != "/fails" else "500 No", [])
    return [os.environ.get("READ_IN_A_REQUEST", "-").encode()]
"""


@pytest.mark.once
def test_an_application_serves_requests_before_it_is_kept(own_images: Images) -> None:
    own_images.module("warmed_site", APPLICATION)
    done = own_images.build("--preload", "json,warmed_site", "--warm", "/a", "--warm", "/fails")
    assert done.returncode == 0, done.stderr
    assert "/fails" in done.stderr
    source = "import sys, warmed_site; print(warmed_site.served, 'wave' in sys.modules)"
    assert own_images.run("-c", source).out == b"['/a', '/fails'] True\n"
    # A request has read the variable.
    assert "READ_IN_A_REQUEST" in own_images.why(environ={"READ_IN_A_REQUEST": "1"})


RUNS = """\
import json
import os
exec("".join(f"def f{n}(a):\\n    b = a + {n}\\n    return b if b else a\\n" for n in range(600)))
functions = [globals()[f"f{n}"] for n in range(600)]
warmed, rehearsed, never = functions[::20], functions[7::20], functions[13::20]
def pages(of): return len({id(f.__code__) // 4096 for f in of})
def application(environ, start_response):
    for function in warmed: function(1)
    start_response("200 OK", [])
    return [b""]
"""


@pytest.mark.once
def test_code_of_a_warm_up_and_of_a_rehearsal_lies_together_and_is_gathered_once(
    own_images: Images,
) -> None:
    own_images.module("runs", RUNS)
    script = own_images.folder / "script.py"
    script.write_text("import runs\nfor function in runs.rehearsed: function(1)\n")
    own_images.built("--preload", "runs,pasture", "--warm", "/", "--rehearse", str(script))
    source = (
        "import pasture, runs; pages = [runs.pages(f) for f in (runs.warmed, runs.rehearsed,"
        " runs.never)]; before = runs.f0.__code__, runs.f13.__code__\n"
        "def late(): pass\nlate()\n"
        "[step] = [s for s in pasture.seal().steps if s.name == 'gather-code']\n"
        "print(*pages, step.counts['codes'] < 400, before[0] is runs.f0.__code__,"
        " before[1] is runs.f13.__code__)"
    )
    warmed, rehearsed, never, *rest = own_images.run("-c", source).out.split()
    assert (int(warmed) <= 5, int(rehearsed) <= 5, int(never) >= 20) == (True, True, True)
    assert rest == [b"True", b"True", b"True"]


REHEARSAL = """\
import sys
import tempfile
sys.path.insert(0, "{folder}/hidden")
import beside_it  # where programs do not look
import wave
broken = sys.modules["broken"] = type(sys)("broken")  # as a module that only this program makes
sys.stdout.close()
"""


@pytest.mark.once
def test_modules_that_a_rehearsal_imports_are_loaded_and_its_state_is_gone(
    own_images: Images,
) -> None:
    hidden = own_images.folder / "hidden"
    hidden.mkdir()
    (hidden / "beside_it.py").write_text("")
    script = own_images.folder / "script.py"
    script.write_text(REHEARSAL.format(folder=own_images.folder))
    words = ("--preload", "json", "--preload", "decimal", "--rehearse", str(script))
    source = "import sys; print([n in sys.modules for n in ('json', 'decimal', 'wave', {!r})])"
    own_images.built(*words)
    found = own_images.run("-c", source.format("beside_it"))
    assert found.out == b"[True, True, False, False]\n", found
    own_images.built(*words, "--rehearse-imports")
    for name in ("beside_it", "broken"):
        found = own_images.run("-c", source.format(name))
        assert found.out == b"[True, True, True, False]\n", found
    assert own_images.pasture("show", str(own_images.image)).stdout.count("json, decimal") == 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preload", "json", "--rehearse-imports"), "needs a rehearsal"),
        (("--preload", "warmed_site", "--warm", "/fails"), "no request of the warm-up"),
        (("--preload", "json", "--warm", "/"), "no application"),
        (("--preload", "json", "--app", "no.such:a", "--warm", "/"), "no.such cannot be imported"),
        (("--preload", "there_is_none"), "there_is_none cannot be imported"),
        (("--preload", "json", "--mode", "666"), "'666' is not one of"),
        (("--preload", "json", "--rehearse", "{lib}/fails.py"), "rehearsal ended with an error"),
    ],
)
def test_an_image_that_cannot_be_made_is_not_there(
    own_images: Images, words: tuple[str, ...], said: str
) -> None:
    own_images.module("warmed_site", APPLICATION)
    own_images.module("fails", "1/0\n")
    done = own_images.build(*(word.format(lib=own_images.lib) for word in words))
    assert done.returncode not in (0, 1), done.stderr
    assert said in done.stderr
    assert "no.such" not in said or "Traceback" not in done.stderr
    assert sorted(path.name for path in own_images.folder.iterdir()) == ["lib"]


def _answer(client: socket.socket) -> None:
    while data := client.recv(1 << 16):
        client.sendall(b"+OK\r\n" * data.count(b"*"))


def redis_server() -> int:
    """Answers each command alike; returns its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            threading.Thread(target=_answer, args=[server.accept()[0]], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


CACHED = """
import redis, socket
client = redis.Redis(port={port}, protocol=2, lib_name=None, lib_version=None)
kept = []
def application(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/kept":
        kept.append(socket.create_connection(("127.0.0.1", {port})))
    return [client.echo("a")]
"""


@pytest.mark.once
def test_idle_connections_of_a_warm_up_are_left_out_and_others_are_named(
    own_images: Images,
) -> None:
    """A pool of redis-py sees that the process is another one, and connects again."""
    port = redis_server()
    own_images.module("cached", CACHED.format(port=port))
    own_images.built("--preload", "cached", "--warm", "/")
    assert own_images.why() == ""
    assert own_images.run("-c", "import cached; print(cached.client.echo('a'))").out == b"b'OK'\n"
    done = own_images.build("--preload", "cached", "--warm", "/", "--warm", "/kept")
    assert done.returncode == 17
    named = f"a connection to 127.0.0.1:{port}, opened by cached in the request GET /kept"
    assert named in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import socket\nS = socket.socket()", "keeps open"),
        ("F = open('/tmp/pasture-kept', 'w')", "keeps open"),
        (
            "import fcntl\nfcntl.flock(F := open(__file__, 'a'), fcntl.LOCK_EX)",
            "cannot be loaded twice",
        ),
        ("import os\nos._exit(3)", "ended"),
        ("import mmap\nM = mmap.mmap(-1, 4096)", "shared with other processes"),
        ("import os\nos.mkdir(__file__ + '.once')", "cannot be loaded twice: ImageFailed: diff"),
    ],
)
def test_a_module_that_no_other_process_can_have_is_reported(
    own_images: Images, text: str, said: str
) -> None:
    own_images.module("difficult", text)
    done = own_images.build("--preload", "difficult")
    assert done.returncode == 17
    assert said in done.stderr
    assert not own_images.image.exists()


LEAVES = """
import subprocess, sys
sleeper = [sys.executable, "-c", "import time; time.sleep(1e6)"]
alone = (
    "import subprocess as s, sys; "
    "print(s.Popen(sys.argv[1:], stdout=-3, start_new_session=True).pid)"
)
child = subprocess.Popen(sleeper)
daemon = subprocess.run([sys.executable, "-c", alone, *sleeper], stdout=-1, stderr=-3).stdout
open(sys.path[0] + "/pids", "w").write(f"{child.pid} {int(daemon)}")
"""


@pytest.mark.once
def test_processes_that_a_preloaded_module_leaves_end_with_the_build(own_images: Images) -> None:
    own_images.module("leaves", LEAVES.replace("sys.path[0]", repr(str(own_images.folder))))
    own_images.build("--preload", "leaves")
    pids = (own_images.folder / "pids").read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.once
def test_gunicorn_has_the_defaults_of_the_program(own_images: Images, tmp_path: Path) -> None:
    """It finds them when it is loaded: directory, user, and some variables."""
    done = own_images.build("--preload", "gunicorn.config,gunicorn.arbiter", environ={"PWD": "/"})
    assert (done.returncode, "looked at" in done.stdout) == (0, False), done
    source = (
        "from gunicorn.config import Config\n"
        "found = Config(); print(found.chdir, found.uid, found.gid, found.workers, found.bind,"
        " found.control_socket)"
    )
    variables = {"PORT": "81", "WEB_CONCURRENCY": "3", "XDG_RUNTIME_DIR": str(tmp_path)}
    for environ in ({}, {"PWD": str(tmp_path), **variables}):
        assert own_images.why("-c", source, environ=environ) == ""
        by_image = own_images.run("-c", source, cwd=tmp_path, environ=environ)
        assert by_image.out.startswith(f"{tmp_path} ".encode())
        assert by_image == own_images.python("-c", source, cwd=tmp_path, environ=environ)


POOL = """\
import multiprocessing.pool
def square(n): return n * n
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, range(4)))
"""


@pytest.mark.once
@pytest.mark.parametrize("preload", ["json,multiprocessing.pool", "json"])
def test_a_program_is_sealed_if_its_environment_says_so(
    own_images: Images, tmp_path: Path, preload: str
) -> None:
    """The start file of `pasture[auto]` ran when the image was made, without the variable."""
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    own_images.built("--preload", preload)
    assert own_images.why(str(script), environ={"PASTURE": "seal"}) == ""
    sealed = own_images.run(str(script), environ={"PASTURE": "seal"})
    assert (sealed.out, b": sealed, " in sealed.err) == (b"[0, 1, 4, 9]\n", True)
    assert own_images.run(str(script)).err == b""


def stub(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`pasture-python` without an image of its own."""
    environ = {"PASTURE_IMAGE_VERBOSE": "1"} | variables
    command = [STUB, *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_the_interpreter_that_a_variable_names_is_another_program_by_its_whole_path(
    tmp_path: Path,
) -> None:
    printed = ("-c", "print(1)")
    assert stub(*printed, PASTURE_PYTHON="python3").stdout == "1\n"
    itself = stub(*printed, PASTURE_PYTHON=str(STUB))
    assert (itself.returncode, itself.stdout) == (127, "")
    assert "there is no python next to it" in itself.stderr
    elsewhere = Path("/dev/shm")  # another file system, if there is one
    for folder, text, status in (
        (tmp_path, "#!/none\n", 127),
        (tmp_path, "", 126),
        (elsewhere if os.access(elsewhere, os.W_OK) else tmp_path, "#!/none\n", 127),
    ):
        script = folder / f"script-{os.getpid()}"
        script.write_text(text)
        script.chmod(0o700 if text else 0o600)
        done = stub(*printed, PASTURE_PYTHON=str(script))
        script.unlink()
        assert (done.returncode, done.stdout) == (status, "")
        assert f"pasture-python: {script}: " in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others are made by root alone")
def test_a_file_of_the_user_that_kernels_show_for_unknown_ones_is_that_users() -> None:
    unknown = 65534
    with tempfile.NamedTemporaryFile(suffix=".img") as file:
        os.chown(file.name, unknown, unknown)
        done = subprocess.run(
            ["/bin/sh", "-c", f"exec '{STUB}' -c ''"],
            env={
                "PASTURE_IMAGE_VERBOSE": "1",
                "PASTURE_IMAGE": file.name,
                "PASTURE_PYTHON": "/bin/true",  # the other one may be hidden from it
            },
            user=unknown,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "the file is no image" in done.stderr


def test_without_restartable_sequences_a_program_starts_out_of_an_image(
    own_images: Images,
) -> None:
    """The C library of the image's process registers none where a variable says so."""
    own_images.environ["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
    own_images.built("--preload", "json")
    assert own_images.why("-c", "print(1)") == ""
    assert own_images.run("-c", "import json; print(json.dumps([1]))").out == b"[1]\n"
