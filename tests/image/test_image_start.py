"""A program out of a file is the program that `python` would run, only sooner."""

from __future__ import annotations

import os
import re
import runpy
import signal
import socketserver
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

import pytest
from images import SAID, STUB, TIMEOUT_S, Ended, Images, make_environment
from running import completed

import pasture
import pasture_image
from pasture import _native

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
    for words, given in programs:
        by_image = images.served(*words, input=given)
        assert by_image == images.python(*words, input=given, environ=SAID), words


@pytest.mark.parametrize("word", ["0", "off", "No", "FALSE"])
def test_pasture_off_means_python(images: Images, word: str) -> None:
    assert images.why(environ={"PASTURE": word}).endswith("PASTURE is off")
    assert images.why(environ={"PASTURE": "seal"}) == ""


@pytest.mark.interpreter
def test_programs_out_of_a_file_end_in_each_way_as_by_python(images: Images) -> None:
    file = images.folder / "left"
    words = (str(PROGRAMS / "exit_ways.py"), "main", "", str(file))
    assert images.why(*words, "run_to_the_end") == ""
    differs = {}
    for way in runpy.run_path(words[0])["WAYS"]:
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
    ended = own_images.served("-c", source)
    assert ended == own_images.python("-c", source)
    assert ended.err == b""


@pytest.mark.once
def test_nothing_lies_in_an_image_but_what_is_meant_to(own_images: Images) -> None:
    """With all that a build can do: a rehearsal and requests."""
    own_images.module("warmed_site", APPLICATION)
    rehearsal = own_images.module("rehearsal", "import json\n")
    own_images.built(
        *("--preload", "warmed_site", "--warm", "/"),
        *("--rehearse", str(rehearsal)),
    )
    source = "import sys; print(*(n for n in sys.modules if n.startswith('pasture_image.')))"
    ended = own_images.served("-c", source)
    assert {name.split(".")[1] for name in ended.out.decode().split()} == {"inside"}


BESIDES = {
    # What is seeded while modules are loaded is found by functions in the place of the library's.
    *("random", "_random", "bisect", "_bisect", "math", "warnings", "_py_warnings", "_contextvars"),
    *("locale", "_locale", "gettext"),  # which locale modules ask for, in the same way
    *("fcntl", "select", "resource"),  # files that event loops have, and limits
    *("atexit", "gc", "io", "signal"),  # how a program begins and ends
    *("importlib", "importlib._bootstrap", "importlib._bootstrap_external", "importlib.machinery"),
    *("__future__", "contextlib", "typing", "_typing"),  # how all that is written
}


@pytest.mark.once
def test_a_program_has_few_modules_that_python_has_not(own_images: Images) -> None:
    installed = own_images.folder / "installed"  # not editable: its finders import more
    (installed / "pasture").mkdir(parents=True)
    for part in (*Path(pasture.__file__).parent.iterdir(), Path(_native.__file__)):
        (installed / "pasture" / part.name).symlink_to(part)
    (installed / "pasture_image").symlink_to(Path(pasture_image.__file__).parent)
    own_images.environ["PYTHONPATH"] = str(installed)
    own_images.built("--preload", "json", "--options", "-S")
    words = ("-S", "-c", "import json, site, sys; print(*sys.modules)")
    image, plain = (
        {*run(*words).out.decode().split()} for run in (own_images.served, own_images.python)
    )
    assert "json.decoder" in image & plain
    of_pasture = {name for name in image if name.startswith("pasture")}
    assert image - plain - of_pasture <= BESIDES
    row = tomllib.loads(SIZES.read_text())["counts"]["modules_in_an_image"]
    assert row * 0.98 <= len(of_pasture) <= row


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
    first, second = (own_images.served("-c", BY_CELERY, cwd=tmp_path).out.split() for _ in "ab")
    assert first[0] != second[0]
    assert first[1:] == [b"True", b"1"]


@pytest.mark.once
def test_an_image_says_what_it_holds_and_depends_on(images: Images) -> None:
    shown = images.pasture("show", str(images.image))
    document = images.document()
    assert {"json", "changing", "pasture"} <= set(document["modules"])
    assert str(images.lib / "changing.py") in document["files"]
    assert str(images.lib / "answer.so") in document["libraries"]
    assert "PYTHONPATH" in document["variables"]
    assert document["holds"] == ["PYTHONPATH"]
    assert "changing" in document["preload"] and "hash seed" in shown.stdout
    assert images.image.stat().st_mode & 0o777 == 0o600


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
    assert own_images.served("-c", source).out == b"['/a', '/fails'] True\n"
    # A request has read the variable.
    assert "READ_IN_A_REQUEST" in own_images.why(environ={"READ_IN_A_REQUEST": "1"})


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preload", "warmed_site", "--warm", "/fails"), "no request of the warm-up"),
        (("--preload", "json", "--warm", "/"), "no application"),
        (("--preload", "json", "--app", "no.such:a", "--warm", "/"), "no.such cannot be imported"),
        (("--preload", "there_is_none"), "there_is_none cannot be imported"),
        (("--preload", "json", "--mode", "666"), "'666' is not one of"),
    ],
)
def test_an_image_that_cannot_be_made_is_not_there(
    own_images: Images, words: tuple[str, ...], said: str
) -> None:
    own_images.module("warmed_site", APPLICATION)
    done = own_images.build(*words)
    assert done.returncode not in (0, 1), done.stderr
    assert said in done.stderr
    assert "no.such" not in said or "Traceback" not in done.stderr
    assert sorted(path.name for path in own_images.folder.iterdir()) == ["lib"]


class Answers(socketserver.BaseRequestHandler):
    """A Redis that answers each command alike."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(b"+OK\r\n" * data.count(b"*"))


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
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        own_images.module("cached", CACHED.format(port=port))
        own_images.built("--preload", "cached", "--warm", "/")
        source = "import cached; print(cached.client.echo('a'))"
        assert own_images.served("-c", source).out == b"b'OK'\n"
        done = own_images.build("--preload", "cached", "--warm", "/", "--warm", "/kept")
        server.shutdown()
    assert done.returncode == 17
    named = f"a connection to 127.0.0.1:{port}, opened by cached in the request GET /kept"
    assert named in done.stderr


SITE = """
import of_site, os
os.environ.setdefault("SET_BY_SITE", "1")
os.environ.pop("LEFT_OUT", None)
os.environ["PATH"] = f"/first:{os.environ['PATH']}"
"""


@pytest.mark.once
def test_variables_that_start_files_set_are_programs_and_those_in_their_texts_count(
    own_images: Images,
) -> None:
    own_images.module("sitecustomize", SITE)
    own_images.module("of_site", "import os\nMODE = os.environ.get('OF_SITE')\n")
    own_images.built("--preload", "json")
    source = "import os, of_site; print(*map(os.environ.get, ('SET_BY_SITE', 'LEFT_OUT', 'PATH')))"
    assert (ended := own_images.served("-c", source)) == own_images.python("-c", source)
    assert ended.out.startswith(b"1 None /first:")
    for name in ("SET_BY_SITE", "LEFT_OUT", "OF_SITE"):
        assert own_images.why("-c", source, environ={name: "2"}).endswith(f": {name}")
    own_images.module("sitecustomize", "1/0")
    assert "sitecustomize fails here" in own_images.build("--preload", "json").stderr


@pytest.mark.once
@pytest.mark.parametrize("text", ["from .inner.part import Thing", "class Thing: pass"])
def test_a_module_runs_a_second_time_where_its_package_has_loaded_it(
    own_images: Images, text: str
) -> None:
    inner = own_images.lib / "package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text(text)
    (inner / "__init__.py").write_text("")
    (inner / "part.py").write_text("class Thing: pass\nif __name__ == '__main__': print(__file__)")
    own_images.built("--preload", "package,package.inner.part")
    ended = own_images.served("-m", "package.inner.part")
    assert ended == own_images.python("-m", "package.inner.part")
    assert (b"RuntimeWarning" in ended.err) is text.startswith("from")


@pytest.mark.once
@pytest.mark.parametrize("path", [".", ":/a", "/a:b"])
def test_folders_of_modules_are_named_from_the_root_on(own_images: Images, path: str) -> None:
    done = own_images.build("--preload", "json", environ={"PYTHONPATH": path})
    assert (done.returncode, f"from / on: {path}" in done.stderr) == (17, True)


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import socket\nS = socket.socket()", "keeps open"),
        ("F = open('/tmp/pasture-kept', 'w')", "keeps open"),
        ("import fcntl\nfcntl.flock(F := open(__file__, 'a'), fcntl.LOCK_SH)", "keeps open"),
        ("import os\nN = os.open('/dev/zero', os.O_RDONLY)", "keeps open"),
        ("import os\nos._exit(3)", "ended"),
        ("import mmap\nM = mmap.mmap(-1, 4096)", "shared with other processes"),
        ("import os\nos.mkdir(__file__ + '.once')", "cannot be loaded twice: ImageFailed: diff"),
        ("import os; r, w = os.pipe(); os.write(w, b'unread')", "keeps open"),
        ("import os; r, w = os.pipe(); os.close(w)", "keeps open"),
        ("import os; r, w = os.pipe(); also = os.dup(w)", "keeps open"),
        ("import socket; a, b = socket.socketpair(); b.close()", "keeps open"),
        ("import socket; a, b = socket.socketpair(); a.send(b'unread')", "keeps open"),
        (
            "import select, os; e = select.epoll(); os.mkfifo(f := '/tmp/' + os.urandom(8).hex());"
            " n = os.open(f, os.O_RDWR); os.unlink(f); e.register(n)",
            "keeps open",
        ),
        ("import signal, os; n = os.pidfd_open(os.getpid())", "keeps open"),
        ("import sys; sys.argv = sys.argv[:1]", "changes sys.argv while it is loaded"),
        ("import sys; sys.argv.append('more')", "changes sys.argv while it is loaded"),
        ("import sys; sys.argv = (*sys.argv,)", "changes sys.argv while it is loaded"),
        ("import atexit, os; atexit.register(os._exit, 3)", "the image: it ended with status 3"),
        (
            "from pasture_image.inside import begin\nclass Any(set):\n"
            "  def __contains__(self, pid): return True\nbegin.pids = Any()",
            "had this process's id",  # the program that the build starts itself
        ),
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
import subprocess as s, sys
sleeper = ["sleep", "1000000"]
alone = "import subprocess as s; print(s.Popen({{}}, stdout=-3, start_new_session=1).pid)"
child = s.Popen(sleeper)
daemon = s.run([sys.executable, "-c", alone.format(sleeper)], stdout=-1, stderr=-3).stdout
open({pids!r}, "w").write(f"{{child.pid}} {{int(daemon)}}")
"""


@pytest.mark.once
def test_processes_that_a_preloaded_module_leaves_end_with_the_build(own_images: Images) -> None:
    path = own_images.folder / "pids"
    own_images.module("leaves", LEAVES.format(pids=str(path)))
    own_images.build("--preload", "leaves")
    pids = path.read_text().split()
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
        by_image = own_images.served("-c", source, cwd=tmp_path, environ=environ)
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
    sealed = own_images.served(str(script), environ={"PASTURE": "seal"})
    assert (sealed.out, b": sealed, " in sealed.err) == (b"[0, 1, 4, 9]\n", True)
    assert own_images.run(str(script)).err == b""


@pytest.mark.once
def test_a_script_starts_out_of_the_image_next_to_its_interpreter(own_images: Images) -> None:
    make_environment(own_images.folder / "env")
    python = own_images.folder / "env" / "bin" / "python"
    stub = python.with_name("pasture-python")
    own = stub.with_name("pasture-python.img")
    script = own_images.folder / "tool"
    script.write_text(f"#!{stub}\nimport sys\nprint('json' in sys.modules, *sys.argv)\n")
    script.chmod(0o755)

    def run(*words: object, **variables: str) -> tuple[str, str]:
        environ = {**own_images.environ, **variables, **SAID}
        done = completed(words, env=environ, check=True)
        return done.stdout, done.stderr

    command = (python, "-m", "pasture")
    run(*command, "image", "build", "-o", own, "--preload", "json")
    for words in ((script, "a"), (stub, script, "a")):
        out, said = run(*words)
        assert (out, f"started from the image: {own}" in said) == (f"True {script} a\n", True)
    started_by = next((own_images.folder / "env/lib").glob("python*/site-packages")) / "new.pth"
    started_by.touch()
    assert f"a file has changed since the image was made: {started_by.parent}" in run(script)[1]
    started_by.unlink()
    assert run(script, PASTURE_IMAGE="0")[0] == f"False {script}\n"
    assert run(*command, "run", "--", "python", script)[0] == f"True {script}\n"
    assert run(*command, "image", "show", "--check")[0].startswith(f"{own}: ")
    own.unlink()
    assert run(script)[0] == f"False {script}\n"


def test_the_interpreter_that_a_variable_names_is_another_program_by_its_whole_path(
    images: Images, tmp_path: Path
) -> None:
    def by(python: object) -> Ended:
        return images.run("-c", "print(1)", environ={"PASTURE_PYTHON": str(python)})

    assert by("python3").out == b"1\n"
    itself = by(STUB)
    assert (itself.status, itself.out) == (127, b"")
    assert b"there is no python next to it" in itself.err
    elsewhere = Path("/dev/shm")  # another file system, if there is one
    for folder, text, status in (
        (tmp_path, "#!/none\n", 127),
        (tmp_path, "", 126),
        (elsewhere if os.access(elsewhere, os.W_OK) else tmp_path, "#!/none\n", 127),
    ):
        script = folder / f"script-{os.getpid()}"
        script.write_text(text)
        script.chmod(0o700 if text else 0o600)
        ended = by(script)
        script.unlink()
        assert (ended.status, ended.out) == (status, b"")
        assert f"pasture-python: {script}: ".encode() in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others are made by root alone")
def test_a_file_of_the_user_that_kernels_show_for_unknown_ones_is_that_users() -> None:
    unknown = 65534
    with tempfile.NamedTemporaryFile(suffix=".img") as file:
        os.chown(file.name, unknown, unknown)
        # The other interpreter may be hidden from it.
        environ = {**SAID, "PASTURE_IMAGE": file.name, "PASTURE_PYTHON": "/bin/true"}
        done = completed([STUB, "-c", ""], env=environ, user=unknown)
    assert "the file is no image" in done.stderr


def test_without_restartable_sequences_a_program_starts_out_of_an_image(
    own_images: Images,
) -> None:
    """The C library of the image's process registers none where a variable says so."""
    own_images.environ["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
    own_images.built("--preload", "json")
    assert own_images.served("-c", "import json; print(json.dumps([1]))").out == b"[1]\n"


def test_an_interrupt_ends_a_program_though_the_build_ignored_it(own_images: Images) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    words = [sys.executable, "-m", "pasture", "image", "build", "-o", own_images.image]
    completed([*words, "--preload", "json"], env=own_images.environ, preexec_fn=ignore, check=True)
    text = "import signal, time; print(signal.getsignal(1), flush=True); time.sleep(60)"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        with own_images.popen(["-c", text], stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"0\n"
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == -number
