"""Profiles: recorded in real workers, built by the parent at the next start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import environment

from pasture.profile import file

PROGRAMS = Path(__file__).parent.parent / "programs"

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


def test_a_server_builds_before_the_fork_what_its_workers_have_built(serve, tmp_path):
    path = tmp_path / "site.profile"
    server = serve(app="learning_app:app", options=("--learn", str(path)))
    answers = {}
    while len(answers) < 2 or sum(map(len, answers.values())) < 6:  # two for each worker, and some
        answer = server.get("/learned-5?page=2&name=alice")
        assert answer["imported by"] == answer["filled by"] == answer["pid"]
        answers.setdefault(answer["pid"], []).append(answer)
    server.wait_for(lambda: path.exists() and file.read(path).of("request"), "a profile")
    first = set(server.workers())
    os.kill(answer["pid"], signal.SIGKILL)
    server.wait_for(lambda: server.get("/")["pid"] not in first, "an answer of a new worker")
    server.stop()
    profile = file.read(path)
    assert "learned_lazily" in profile.of("module")
    assert "learned_own" not in profile.of("module")
    assert profile.of("cache") == ("learning_app:table",)
    assert '0 "learned-[0-9]+"' in profile.of("pattern")
    assert "GET /learned-5?page=2&name=" in profile.of("request")

    server = serve(app="learning_app:app", options=("--profile", str(path)))
    answer = server.get("/")
    assert answer["imported by"] == answer["filled by"] == server.pid != answer["pid"]
    assert answer["name"].startswith(f"{answer['pid']}@")  # the warm-up has made another one
    found = {}
    server.wait_for(
        lambda: found.update({(one := server.get("/"))["pid"]: one["id"]}) or len(found) == 2,
        "an answer of each worker",
    )
    assert len(set(found.values())) == 2
    assert "learning_app.worker_name is emptied: it holds the id of a process" in server.log
    assert "pasture: warm-up: GET /learned-5?page=2&name=" in server.log
    entries = len(profile) - len(profile.of("request"))
    assert f"profile: built {entries} of {entries} entries" in server.log


def test_a_server_by_itself_uses_at_the_next_start_what_it_has_learned(serve, tmp_path):
    options = ("--auto", "--learn", str(tmp_path / "learned"))
    server = serve(app="learning_app:app", options=options)
    assert "auto: nothing was learned yet" in server.log
    server.wait_for(
        lambda: server.get("/learned-5?page=2") and "the mold of generation 1 after" in server.log,
        "a refork",
    )
    server.wait_for(lambda: file.read(tmp_path / "learned").of("request"), "a request")
    server.stop()

    server = serve(app="learning_app:app", options=options)
    answer = server.get("/")
    assert answer["imported by"] == answer["filled by"] != answer["pid"]
    assert "pasture: warm-up: GET /learned-5?page=2" in server.log


def test_a_request_that_fails_without_its_value_is_sent_at_one_start_only(serve, tmp_path):
    (tmp_path / "picky.py").write_text(
        "import json, os\n"
        "def app(environ, start_response):\n"
        "    if environ['QUERY_STRING'].endswith('='):\n"
        "        raise ValueError('no value')\n"
        "    start_response('200 OK', [])\n"
        "    return [json.dumps({'pid': os.getpid()}).encode()]"
    )
    path = tmp_path / "site.profile"
    environment = {"PYTHONPATH": str(tmp_path)}
    fails = []
    for _ in range(3):
        options = ("--auto", "--policy", "seal", "--learn", str(path))
        server = serve(app="picky:app", options=options, env=environment)
        answered = [server.get("/tile?url=a.tif")["pid"] for _ in range(6)]
        assert len(answered) == 6
        server.stop()
        fails.append(server.log.count("no value"))
        kept = file.read(path)
    assert fails[0] == fails[2] == 0 < fails[1]
    assert kept.of("request") == () and kept.of("failed") == ("GET /tile?url=",)


@pytest.mark.parametrize("options", [(), ("--fork-spawned",)], ids=["forkserver", "spawn"])
def test_what_a_pool_sets_before_it_imports_is_set_at_the_next_start_too(tmp_path, options):
    method = "spawn" if options else "forkserver"
    (tmp_path / "settings_of_pool.py").write_text("database = 'sqlite'\n")
    (tmp_path / "backend_of_pool.py").write_text(
        "import settings_of_pool\nname = settings_of_pool.database\n"
    )
    (tmp_path / "pool_program.py").write_text(
        "import multiprocessing, sys, time\n"
        "def begin():\n"
        "    import settings_of_pool\n"
        "    settings_of_pool.database = 'postgresql'\n"
        "    import backend_of_pool\n"
        "def name(_):\n"
        "    time.sleep(0.5)\n"
        "    return sys.modules['backend_of_pool'].name\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('{method}').Pool(1, begin) as pool:\n"
        "        print(pool.map(name, range(2)))\n"
    )
    learned = tmp_path / "learned"

    def run():
        done = subprocess.run(
            (
                *(sys.executable, "-m", "pasture", "run", "--auto", "--learn", str(learned)),
                *(*options, "--", "python", str(tmp_path / "pool_program.py")),
            ),
            env=environment({}),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "['postgresql', 'postgresql']\n", done.stderr
        return done.stderr

    run()
    assert "backend_of_pool" in file.read(learned).of("module")
    assert "is left to workers" in run()


def test_workers_that_record_become_molds_and_those_that_come_of_them_record(serve, tmp_path):
    path = tmp_path / "site.profile"
    server = serve(
        app="learning_app:app", options=("--learn", str(path), "--refork", "2"), workers=1
    )
    server.wait_for(
        lambda: server.get("/") and "all workers are of generation 1" in server.log, "a refork"
    )
    assert "refork to generation 1 failed" not in server.log
    server.get("/")
    server.stop()
    profile = file.read(path)
    assert "learned_lazily" in profile.of("module")
    assert profile.of("request") == ("GET /",)


def test_workers_for_asgi_record_requests_too(serve, tmp_path):
    pytest.importorskip("gunicorn.workers.gasgi")
    path = tmp_path / "site.profile"
    server = serve(
        *("-k", "asgi"),
        app="learning_app:asgi",
        options=("--learn", str(path)),
        workers=1,
    )
    for _ in range(2):
        server.get("/?page=2")
    server.stop()
    assert file.read(path).of("request") == ("GET /?page=2",)


def test_a_process_that_ends_at_once_has_recorded_and_finds_it_built(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "jobs.profile"
    program.write_text(PROCESS)

    def run(**variables):
        done = subprocess.run(
            [sys.executable, str(program)],
            env=environment({"PYTHONPATH": str(PROGRAMS), **variables}),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run(PASTURE_LEARN=str(path)) == "False"
    assert file.read(path).of("module") == ("learned_lazily",)
    assert run(PASTURE_PROFILE=str(path)) == "True"


def test_the_report_says_what_each_entry_took(tmp_path):
    path = tmp_path / "jobs.profile"
    entries = {"module": ["learned_lazily", "this", "no_such_module"], "connection": ["tcp 5432"]}
    file.write(path, file.profile_of(entries))
    done = subprocess.run(
        [sys.executable, "-m", "pasture", "learn", "--report", str(path)],
        env=environment({"PYTHONPATH": str(PROGRAMS)}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    table, _, rest = done.stdout.partition("Not built:")
    assert "module learned_lazily" in table
    assert "module this: refused: it makes output" in rest
    assert "module no_such_module: it is no longer there" in rest
    assert "connection tcp 5432" in rest
