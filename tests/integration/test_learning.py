"""`--auto`: names recorded in real workers, tried once, and built by the parent from then on."""

import http.client
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from running import TIMEOUT_S, completed, environment

from pasture import _native
from pasture.learning import file

PROGRAMS = Path(__file__).parent.parent / "programs"
CARD = "4111111111111111"

PROCESS = """
import os
import pasture

def work():
    import learned_lazily
    print(learned_lazily.imported_by() == os.getppid(), flush=True)

if __name__ == "__main__":
    with pasture.sealed() as workers:
        process = workers.context.Process(target=work)
        process.start()
        process.join()
"""

TRIED = {
    "fine": "import json\nVALUE = 5",
    "within": "",
    "root": "import tried_within",
    "printing": "print('welcome')",
    "printing_in_c": "import os\nos.write(2, b'welcome')",
    "keeping": "import os\nfile = os.open(__file__, os.O_RDONLY)",
    "random": "import secrets\nKEY = secrets.token_bytes(8)",
    "started": "import time\nSTARTED = time.time()",
    "broken": "int('alice')",
    "half": "import tried_part\nopen('made', 'w')",
    "part": "",
    "mapping": "import mmap, os\nfile = os.open(__file__, os.O_RDONLY)\n"
    "there = mmap.mmap(file, 0, prot=mmap.PROT_READ)",
    "crashing": "import os\nos.abort()",
    "after": "",
}


def run(program, *words, cwd=None, **variables):
    done = completed(
        [sys.executable, *words, str(program)],
        env=environment({"PYTHONPATH": str(PROGRAMS), **variables}),
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done


def ask(port, target):
    """As a stranger does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", target, headers={"Host": "evil.example.org", "Cookie": "id=bob"})
    return json.loads(connection.getresponse().read())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "site.auto"


def test_a_server_builds_before_the_fork_what_its_workers_have_built(serve, path):
    options = (f"--auto={path}",)
    server = serve(app="learning_app:app", options=options)
    assert "auto: nothing was learned yet" in server.log
    for _ in range(6):
        answer = server.get("/learned-5?page=2&name=alice")
        assert answer["imported by"] == answer["pid"]
    server.wait_for(lambda: "module learned_own" in file.read(path), "a look of the recorder")
    os.kill(answer["pid"], signal.SIGKILL)
    server.stop()
    first = file.read(path)
    assert first["module learned_lazily"] == file.NEW
    if _native.HAS_IMMORTALITY:
        assert 'pattern 0 "learned-[0-9]+"' in first
        assert "code learning_app:app" in first

    server = serve(app="learning_app:app", options=options)
    answer = server.get("/")
    assert answer["imported by"] == server.pid != answer["pid"]
    server.wait_for(
        lambda: server.get("/")["own"] != answer["own"], "another value of another worker"
    )
    server.stop()
    second = file.read(path)
    assert second["module learned_lazily"] == file.OK
    assert second["module learned_own"] == "makes other values in each process"
    assert "auto: left to workers: module learned_own makes other values" in server.log

    server = serve(app="learning_app:app", options=options)
    assert server.get("/")["imported by"] == server.pid
    assert "left to workers" not in server.log and "nothing was learned" not in server.log


def test_a_start_serves_no_request_and_has_nothing_of_one(serve, path, tmp_path):
    requests = tmp_path / "requests.txt"
    for start in range(2):
        server = serve(app="hoarding_app:app", options=(f"--auto={path}",), workers=1)
        before = len(requests.read_text().splitlines()) if requests.exists() else 0
        for number in range(60):  # a refork would come after 50
            answer = ask(server.port, f"/card/{CARD}?name=alice+smith")
            assert answer["opened by"] == answer["pid"]
            assert len(requests.read_text().splitlines()) == before + number + 1
        server.stop()
        assert "generation" not in server.log and "warm-up" not in server.log
        text = path.read_text()
        assert start == 0 or "hoarding_half" in text
        for secret in (CARD, "card/", "alice", "evil", "bob", os.fspath(tmp_path)):
            assert secret not in text, text


def test_an_import_that_is_refused_halfway_leaves_nothing_in_the_parent(serve, path, tmp_path):
    for outcome in (None, "makes a file (open)", "makes a file (open)"):
        server = serve(app="hoarding_app:app", options=(f"--auto={path}",), workers=2)
        assert server.get("/")["half"]
        assert server.get("/")["half"]
        server.stop()
        assert file.read(path).get("module hoarding_half") == (outcome or file.NEW)
    imports = (tmp_path / "imported.txt").read_text().splitlines()
    assert len(imports) <= 6  # of workers alone


def test_a_surprise_in_the_parent_ends_it_before_it_has_workers(serve, path, tmp_path):
    file.write(path, {"module learned_lazily": file.OK, "module hoarding_half": file.OK})
    server = serve(app="hoarding_app:app", options=(f"--auto={path}",), workers=2)
    assert server.get("/")["half"]
    assert "module hoarding_half makes a file (open), and did not when it was tried" in server.log
    server.stop()
    assert server.log.count("Booting worker") == 2
    assert file.read(path)["module hoarding_half"] == "makes a file (open)"
    assert file.read(path)["module learned_lazily"] == file.OK


def test_entries_are_tried_in_copies_that_leave_nothing(tmp_path):
    for name, source in TRIED.items():
        (tmp_path / f"tried_{name}.py").write_text(source)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from pasture.learning import trial\n"
        "files = os.listdir('/proc/self/fd')\n"
        f"lines = [f'module tried_{{name}}' for name in {[*TRIED]!r}]\n"
        "found = trial.tried([*lines, 'module tried_missing'])\n"
        "for line, outcome in found.items():\n"
        "    print(line.removeprefix('module tried_'), outcome, sep=': ')\n"
        "assert os.listdir('/proc/self/fd') == files\n"
        "assert not any(name.startswith('tried_') for name in sys.modules)\n"
        "try:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('no child')\n"
    )
    assert run(program).stdout.splitlines() == [
        "fine: ok",
        "within: ok",
        "root: ok",
        "printing: prints",
        "printing_in_c: prints",
        "keeping: keeps a file open",
        "random: makes other values in each process",
        "started: makes other values in each process",
        "broken: raises ValueError",
        "half: makes a file (open)",
        "mapping: ok",
        "crashing: ends the process",
        "no child",
    ]


def test_a_module_that_comes_with_another_one_leaves_the_file(tmp_path, path):
    for name in ("within", "root"):
        (tmp_path / f"tried_{name}.py").write_text(TRIED[name])
    file.write(path, {f"module tried_{name}": file.NEW for name in ("root", "within")})
    program = tmp_path / "program.py"
    program.write_text("import pasture\nwith pasture.sealed():\n    pass\n")
    run(program, PASTURE_AUTO=str(path))
    assert file.read(path) == {"module tried_root": file.OK}


def test_a_file_that_was_filled_since_the_start_is_used_by_the_next_parent(tmp_path, path):
    """As of a first start that HUP gives a new parent."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from pasture.serving import learned\n"
        "from pasture.serving.settings import read_environment\n"
        "from pasture.learning import file\n"
        "settings = read_environment()\n"
        "say = lambda level, line: print(line.partition(' in ')[0])\n"
        "learned.prepare(settings.auto, settings.policy, say)\n"
        "file.append(settings.auto, ['module learned_lazily'], 0)\n"
        "learned.prepare(settings.auto, settings.policy, say)\n"
        "print('learned_lazily' in sys.modules)\n"
    )
    assert run(program, PASTURE_AUTO=str(path)).stdout.splitlines() == [
        "auto: nothing was learned yet: what workers import and run is recorded",
        "auto: built 1 entries",
        "True",
    ]


def test_a_file_that_cannot_be_used_keeps_no_server_from_its_start(serve, path):
    path.write_text("another file\n")
    server = serve(app="learning_app:app", options=(f"--auto={path}",), workers=1)
    assert server.get("/")
    assert "its first line is not" in server.log
    assert path.read_text() == "another file\n"


def test_a_file_that_cannot_be_written_is_built_all_the_same(tmp_path):
    folder = tmp_path / "open_to_all"
    folder.mkdir()
    path = folder / "site.auto"
    file.write(path, {"module learned_lazily": file.OK})
    folder.chmod(0o777)
    program = tmp_path / "program.py"
    program.write_text(PROCESS)
    done = run(program, PASTURE_AUTO=str(path))
    assert done.stdout.strip() == "True"
    assert "auto: nothing is recorded: " in done.stderr


def test_a_process_that_ends_at_once_has_recorded_and_finds_it_built(tmp_path, path):
    program = tmp_path / "program.py"
    program.write_text(PROCESS)
    assert run(program, PASTURE_AUTO=str(path)).stdout.strip() == "False"
    assert file.read(path)["module learned_lazily"] == file.NEW
    assert run(program, PASTURE_AUTO=str(path)).stdout.strip() == "True"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_parent_that_runs_nothing_of_the_program_builds_nothing(tmp_path, path, method):
    (tmp_path / "settings_of_pool.py").write_text("database = 'sqlite'\n")
    (tmp_path / "backend_of_pool.py").write_text(
        "import settings_of_pool\nname = settings_of_pool.database\n"
    )
    program = tmp_path / "pool_program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "def begin():\n"
        "    import settings_of_pool\n"
        "    settings_of_pool.database = 'postgresql'\n"
        "    import backend_of_pool\n"
        "def name(_):\n"
        "    return sys.modules['backend_of_pool'].name\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('{method}').Pool(1, begin) as pool:\n"
        "        print(pool.map(name, range(2)))\n"
    )
    file.write(path, {"module backend_of_pool": file.OK})
    options = () if method == "forkserver" else ("--fork-spawned",)
    words = ("-m", "pasture", "run", f"--auto={path}", *options, "--", "python")
    done = run(program, *words)
    assert done.stdout == "['postgresql', 'postgresql']\n"
    assert "auto: nothing is learned" in done.stderr


def test_workers_that_record_become_molds_and_those_that_come_of_them_record(serve, path):
    options = (f"--auto={path}", "--refork", "2")
    server = serve(app="learning_app:app", options=options, workers=1)
    server.wait_for(
        lambda: server.get("/") and "all workers are of generation 1" in server.log, "a refork"
    )
    assert "refork to generation 1 failed" not in server.log
    server.get("/")
    server.stop()
    assert "module learned_lazily" in file.read(path)
