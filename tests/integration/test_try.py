"""`pasture try` with real servers and a real load."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import fastjsonschema
import psutil
import pytest
from running import TIMEOUT_S, completed, free_port

from pasture import errors
from pasture_tools.cli.main import run
from pasture_tools.launch.session import Group
from pasture_tools.trial.document import SCHEMA_FILE
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.server import wait_until_it_answers

PROGRAMS = Path(__file__).parent.parent / "programs"
SMALL = ("--workers", "2", "--requests", "60", "--env", "APP_OBJECTS=1000")

pytestmark = [
    pytest.mark.integration,
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Where trials keep what they install: not the cache of the user who runs the tests."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def command(app, *arguments):
    return [sys.executable, "-m", "pasture", "try", app, *arguments]


def pasture_try(app, *arguments, cwd=PROGRAMS, env=()):
    """Run to the end; what was printed shows up if the test fails."""
    done = subprocess.run(
        command(app, *arguments),
        capture_output=True,
        text=True,
        timeout=110,
        cwd=cwd,
        env=os.environ | dict(env),
    )
    print(done.stdout, done.stderr, sep="\n--- stderr\n")
    return done


def policies(*names):
    return [word for name in names for word in ("--policy", name)]


@pytest.mark.once
def test_a_trial_prints_a_table_and_writes_both_reports(tmp_path):
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    figures.write_text("an earlier report")

    done = pasture_try(
        "steady_app:application", *SMALL, "--url", "/", "--url", "/sum", "--url", "/start",
        "--json", str(figures), "--html", str(page), "--log-dir", str(tmp_path / "logs"),
    )  # fmt: skip

    assert done.returncode == 0, "a body that changes with each start is no difference"
    assert "Answers the same" in done.stdout
    for policy in ("plain", "stock", "freeze", "seal"):
        assert re.search(rf"^{policy} .* MB ", done.stdout, re.MULTILINE)
    document = json.loads(figures.read_text())
    fastjsonschema.validate(json.loads(SCHEMA_FILE.read_text()), document)
    for policy in document["policies"].values():
        assert len(policy["workers"]) == 2
        assert policy["series"][0]["requests"] == 0
        assert policy["series"][-1]["requests"] == 60
        assert 0 < policy["private_bytes_median"] < policy["total_pss_bytes"]
        assert policy["shutdown_by_itself"] and policy["failures"] == 0
    assert "<h1>" in page.read_text()
    servers = {path.name for path in (tmp_path / "logs").glob("*.server.log")}
    # Its own workers, which import apart, show that a body changes: it need not run again.
    assert servers == {f"{run}-1.server.log" for run in ("plain", "stock", "freeze", "seal")}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figures.json", "logs", "page.html"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("server", "module", "app"),
    [
        ("uvicorn", "uvicorn", "steady_app:asgi"),
        ("uwsgi", "pyuwsgi", "steady_app:application"),
    ],
)
def test_a_trial_of_another_server_compares_with_the_plain_one(server, module, app, tmp_path):
    pytest.importorskip(module)
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"

    done = pasture_try(
        app, "--server", server, *SMALL, *policies("stock", "seal", "refork"),
        "--url", "/", "--url", "/policy", "--env", "APP_OBJECTS=100000",
        "--json", str(figures), "--html", str(page), "--log-dir", str(tmp_path / "logs"),
    )  # fmt: skip

    assert done.returncode == errors.AnswersDiffer.exit_code  # of /policy
    assert re.search(r"^refork not tried: only gunicorn", done.stdout, re.MULTILINE)
    assert f"note: stock is plain {'uWSGI' if server == 'uwsgi' else server}" in done.stdout
    document = json.loads(figures.read_text())
    fastjsonschema.validate(json.loads(SCHEMA_FILE.read_text()), document)
    assert document["load"]["server"] == server and list(document["impossible"]) == ["refork"]
    stock, seal = document["policies"]["stock"], document["policies"]["seal"]
    assert len(stock["workers"]) == len(seal["workers"]) == 2
    assert stock["shutdown_by_itself"] and seal["shutdown_by_itself"]
    assert stock["seal_report"] is None and seal["seal_report"]["sealed"]
    assert seal["private_bytes_median"] < stock["private_bytes_median"] / 2
    assert f"{server}, 2 workers" in page.read_text()
    assert "pasture:" not in (tmp_path / "logs" / "stock-1.server.log").read_text()


@pytest.mark.once
@pytest.mark.parametrize(("server", "policy"), [("uvicorn", "seal"), ("uwsgi", "stock")])
def test_an_application_that_another_server_cannot_import_is_reported_at_once(server, policy):
    pytest.importorskip("pyuwsgi" if server == "uwsgi" else server)
    done = pasture_try("broken_app:application", "--server", server, *SMALL, *policies(policy))

    assert done.returncode == errors.AppImportFailed.exit_code
    assert "a_package_that_is_not_there" in done.stderr.partition("error: ")[2].splitlines()[0]


@pytest.mark.once
def test_an_asgi_application_that_uwsgi_answers_nothing_for_is_reported_with_what_serves_it():
    pytest.importorskip("pyuwsgi")
    done = pasture_try("steady_app:asgi", "--server", "uwsgi", *SMALL, *policies("stock"))

    assert done.returncode == errors.AppDidNotAnswer.exit_code
    assert "GET / answers no request" in done.stderr
    assert "--server uvicorn" in done.stderr


@pytest.mark.once
def test_exactly_the_requests_of_the_list_are_sent_under_each_policy(tmp_path):
    trace = tmp_path / "trace"

    done = pasture_try(
        "steady_app:application", *SMALL, *policies("stock", "freeze"), "--concurrency", "7",
        "--url", "/", "--url", "POST /sum", "--url", "/changing", "--header", "Cookie: a=b",
        "--env", f"APP_TRACE={trace}",
    )  # fmt: skip

    assert done.returncode == 0
    sent = Counter(line.partition(" ")[2] for line in trace.read_text().splitlines())
    probes = 2  # the first answer of each server
    assert sent == {"GET / a=b": 40 + probes, "POST /sum a=b": 40, "GET /changing a=b": 40}


def test_a_warm_up_is_served_before_the_fork_by_policies_that_have_one(tmp_path):
    trace, urls, figures = tmp_path / "trace", tmp_path / "urls", tmp_path / "figures.json"
    urls.write_text("/\nPOST /sum\n/\n")

    done = pasture_try(
        "steady_app:application", *SMALL, *policies("stock", "warm-freeze"),
        "--urls-file", str(urls), "--header", "Cookie: a=b", "--env", f"APP_TRACE={trace}",
        "--json", str(figures),
    )  # fmt: skip

    assert done.returncode == 0
    lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
    by_process: dict[str, list[str]] = {}
    for pid, request in lines:
        by_process.setdefault(pid, []).append(request)
    for policy in json.loads(figures.read_text())["policies"].values():
        assert len(policy["workers"]) == 2  # of which one that was late may have answered none
        assert any([by_process.pop(f"{worker['pid']}", None) for worker in policy["workers"]])
    # Left are the master that warmed up, and its probe, which repeats what is safe.
    assert sorted(by_process.values()) == [["GET / a=b"], ["GET / a=b", "POST /sum a=b"]]


@pytest.mark.once
def test_answers_that_differ_are_named_and_fail_after_the_reports_are_written(tmp_path):
    figures = tmp_path / "figures.json"

    done = pasture_try(
        "steady_app:application", *SMALL, *policies("stock", "freeze"), "--json", str(figures),
        "--url", "/", "--url", "/policy", "--url", "/only-stock", "--url", "/changing",
    )  # fmt: skip

    assert done.returncode == errors.AnswersDiffer.exit_code
    assert "freeze answers differently: GET /only-stock: status 404 instead of 200" in done.stdout
    found = json.loads(figures.read_text())["policies"]["freeze"]["disagreements"]
    assert {(d["url"], d["what"]) for d in found} == {
        ("GET /only-stock", "status"),
        ("GET /policy", "body"),
    }


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("broken_app:application", "No module named 'a_package_that_is_not_there'"),
        ("steady_app:no_such_name", "no_such_name"),
    ],
)
@pytest.mark.once
def test_an_application_that_does_not_import_is_reported_with_its_reason(app, words):
    done = pasture_try(app, *SMALL)

    assert done.returncode == errors.AppImportFailed.exit_code
    assert words in done.stderr.partition("error: ")[2].splitlines()[0]
    assert "Traceback" not in done.stderr.partition("hint: ")[0]


@pytest.mark.once
def test_an_application_that_does_not_answer_ends_at_the_timeout():
    done = pasture_try("silent_app:application", *SMALL, "--server-timeout", "2")

    assert done.returncode == errors.AppDidNotAnswer.exit_code
    assert "2 s" in done.stderr


@pytest.mark.once
def test_a_page_that_always_fails_is_not_compared():
    done = pasture_try("failing_app:application", *SMALL, "--url", "/", "--url", "/broken")

    assert done.returncode == errors.AppDidNotAnswer.exit_code
    assert "GET /broken always answers 500" in done.stderr
    assert "broken on purpose" in done.stderr


@pytest.mark.once
def test_a_page_that_is_never_answered_is_reported_with_the_clients_reason():
    done = pasture_try("failing_app:application", *SMALL, "--url", "/", "--url", "/closed")

    assert done.returncode == errors.AppDidNotAnswer.exit_code
    words = "error: GET /closed answers no request: the server closed the connection without"
    assert words in done.stderr


@pytest.mark.once
def test_a_server_that_dies_under_load_is_reported_with_its_policy():
    done = pasture_try(
        "failing_app:application", *SMALL, "--url", "/", "--url", "/fatal", *policies("freeze")
    )

    assert done.returncode == errors.ServerFailed.exit_code
    assert "under freeze" in done.stderr


@pytest.mark.once
def test_a_server_that_goes_into_the_background_is_ended(tmp_path):
    (tmp_path / "daemon.conf.py").write_text("daemon = True")

    done = subprocess.run(
        [*command("steady_app:application", *SMALL), "--", "--config", tmp_path / "daemon.conf.py"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=PROGRAMS,
        env=os.environ | {"TRIAL_MARK": str(tmp_path)},
    )

    assert done.returncode == errors.ServerFailed.exit_code
    assert "background" in done.stderr
    assert _marked(str(tmp_path)) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--url", "shop"),
        ("--header", "no colon"),
        ("--header", "Cookie: ü"),
        ("--header", "Cookie: a\x1bb"),
        ("--url", "http://user@host/"),
        ("--env", "NOVALUE"),
        ("--urls-file", "absent"),
        ("--json", "absent/report.json"),
    ],
)
@pytest.mark.once
def test_what_makes_no_sense_is_refused_before_anything_starts(arguments, capfd):
    [_, _, _, *words] = command("steady_app:application", *SMALL, *arguments)
    children = os.times()[2:4]

    assert run(words) == errors.UsageError.exit_code

    said = capfd.readouterr().err
    assert "error: " in said and "Traceback" not in said
    assert "run 1" not in said
    assert os.times()[2:4] == children, "no process was started"


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGHUP, "run 1 of"),
        (signal.SIGTERM, "starting the load"),
    ],
)
@pytest.mark.once
def test_an_interrupt_leaves_no_process_and_no_report(tmp_path, number, moment):
    figures = tmp_path / "figures.json"
    figures.write_text("an earlier report")
    arguments = ("--requests", "1000000", "--json", str(figures))
    running = subprocess.Popen(
        command("steady_app:application", *arguments),
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROGRAMS,
        env=os.environ | {"TRIAL_MARK": str(tmp_path)},
    )
    try:
        for line in running.stderr:
            if moment in line:
                break
        before = _wait_for_what_it_starts(tmp_path, moment)
        running.send_signal(number)
        _, said = running.communicate(timeout=TIMEOUT_S)
    finally:
        running.kill()

    assert len(before) >= 2  # pasture itself and what it started
    assert running.returncode == 130
    assert "Traceback" not in said
    assert _marked(str(tmp_path)) == []
    assert figures.read_text() == "an earlier report"


@pytest.mark.once
def test_runs_that_ended_are_reported_after_an_interrupt(tmp_path, cache):
    figures = tmp_path / "figures.json"
    running = subprocess.Popen(
        command(
            "steady_app:application", *SMALL, *policies("stock", "freeze"), "--json", str(figures)
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROGRAMS,
    )
    try:
        for line in running.stderr:
            if "run 2 of 2" in line:
                running.send_signal(signal.SIGINT)
                break
        printed, said = running.communicate(timeout=TIMEOUT_S)
    finally:
        running.kill()

    assert running.returncode == 130 and "Traceback" not in said
    assert re.search(r"^stock .* MB ", printed, re.MULTILINE)
    assert "\nfreeze not run\n" in printed
    document = json.loads(figures.read_text())
    assert document["interrupted"] and list(document["policies"]) == ["stock"]
    fastjsonschema.validate(json.loads(SCHEMA_FILE.read_text()), document)
    assert not any(cache.rglob("*.json"))


@pytest.mark.once
def test_a_request_that_takes_too_long_is_a_time_out_and_no_difference(tmp_path):
    figures = tmp_path / "figures.json"

    done = pasture_try(
        "failing_app:application", *SMALL, *policies("stock", "freeze"), "--server-timeout", "6",
        "--url", "/", "--url", "/late", "--json", str(figures),
    )  # fmt: skip

    assert done.returncode == errors.AppDidNotAnswer.exit_code
    assert "error: requests timed out under freeze, and none under stock" in done.stderr
    assert re.search(r"freeze: \d requests? timed out, with no answer \(GET /late\)", done.stdout)
    assert "differently" not in done.stdout + done.stderr
    freeze = json.loads(figures.read_text())["policies"]["freeze"]
    assert freeze["timeouts"] >= 1 and freeze["answers_agree"]


@pytest.mark.once
def test_a_production_servers_socket_and_pid_file_are_left_alone(tmp_path, monkeypatch):
    config = tmp_path / "gunicorn.conf.py"
    config.write_text(f"pidfile = {str(tmp_path / 'pid')!r}")
    (tmp_path / "pid").write_text("1")
    (tmp_path / ".gunicorn").mkdir()
    path = tmp_path / ".gunicorn" / "gunicorn.ctl"
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with socket.socket(socket.AF_UNIX) as production:
        production.bind(str(path))
        production.listen()
        before = path.stat().st_ino

        done = pasture_try(
            "steady_app:application", *SMALL, *policies("stock", "refork"),
            "--", "--config", str(config), "-k", "gthread",
            env={"HOME": str(tmp_path)},
        )  # fmt: skip

        assert done.returncode == 0
        assert path.stat().st_ino == before
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert [p.name for p in path.parent.iterdir()] == ["gunicorn.ctl"]
    assert (tmp_path / "pid").read_text() == "1"
    assert "did not refork" not in done.stdout


@pytest.mark.once
def test_a_refork_that_the_workers_cannot_do_is_said_beside_its_figures():
    done = pasture_try(
        "steady_app:application", *SMALL, *policies("refork"),
        "--", "--reload",
    )  # fmt: skip

    assert done.returncode == 0
    assert "\nrefork did not refork: --reload loads the application in each worker\n" in done.stdout


WARMING = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
print("[INFO] pasture: warm-up: GET /slow", flush=True)
time.sleep(6)
print("[INFO] pasture: warm-up: 1 requests, 0 failed", flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), BaseHTTPRequestHandler).serve_forever()
"""


@pytest.mark.once
def test_a_warm_up_may_take_longer_than_a_boot(tmp_path):
    plan = TrialPlan(app="a", workers=0, server_timeout_s=4.0)
    port = free_port()
    with Group([sys.executable, "-c", WARMING, str(port)], log=tmp_path / "log") as server:
        wait_until_it_answers(plan, server, port, time.sleep, policy="seal")
    with (
        Group([sys.executable, "-c", WARMING, str(port)], log=tmp_path / "log") as server,
        pytest.raises(errors.AppDidNotAnswer, match="within 4 s"),
    ):
        wait_until_it_answers(plan, server, port, time.sleep, policy="stock")


@pytest.mark.once
def test_no_place_for_temporary_files_is_an_error_with_a_hint():
    # A file of any size is too large; a pipe is none.
    limited = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh"]

    done = completed([*limited, *command("steady_app:application", *SMALL)])

    assert done.returncode == errors.UsageError.exit_code
    assert "no temporary folder" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.once
def test_a_working_directory_that_is_gone_is_an_error_with_a_hint(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    started = [sys.executable, "-m", "pasture", "try", "steady_app:application", *SMALL]

    done = completed(["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *started], cwd=folder)

    assert done.returncode == errors.UsageError.exit_code
    assert "directory was deleted" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("moment", ["run 1 of", "starting the load"])
@pytest.mark.once
def test_a_trial_that_is_killed_leaves_no_process_and_no_folder(tmp_path, moment):
    running = subprocess.Popen(
        command("steady_app:application", "--requests", "1000000", "--header", "Cookie: secret"),
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROGRAMS,
        env=os.environ | {"TRIAL_MARK": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    try:
        for line in running.stderr:
            if moment in line:
                break
        before, folders = _wait_for_what_it_starts(tmp_path, moment), _folders(tmp_path)
    finally:
        running.kill()
        running.communicate()

    assert len(before) >= 2  # pasture itself and what it started
    assert len(folders) == 1
    deadline = time.monotonic() + TIMEOUT_S
    while (_marked(str(tmp_path)) or _folders(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = _marked(str(tmp_path))
    for process in left:
        process.kill()
    assert left == []
    assert _folders(tmp_path) == []


def _wait_for_what_it_starts(mark, moment):
    """Processes of a trial, once there is its server, or its load."""
    program = "closed_loop" if "load" in moment else "gunicorn"
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        marked = _marked(str(mark))
        if any(program in " ".join(_words(process)) for process in marked):
            return marked
        time.sleep(0.05)
    raise AssertionError(f"there is no {program}")


def _words(process):
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def _folders(place):
    """Private folders of trials, in which lie the warm-up's headers."""
    return [path.name for path in place.iterdir() if path.name.startswith("pasture-try-")]


@pytest.mark.once
def test_a_url_as_a_browser_takes_it_is_requested_and_files_are_utf_8_in_every_locale(tmp_path):
    urls, figures = tmp_path / "urls", tmp_path / "figures.json"
    urls.write_text("/ü€?q=ä%20b\n/100%\n/a?b=[c]#part\n", encoding="utf-8")
    options = ("--urls-file", str(urls), "--json", str(figures))

    done = pasture_try(
        *("steady_app:application", *SMALL, *policies("seal"), *options),
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )

    assert done.returncode == 0, done.stderr
    requested = json.loads(figures.read_text())["load"]["urls"]
    assert len(requested) == 3 and all(url.isascii() for url in requested)


def _marked(mark):
    """Running processes that inherited a mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("TRIAL_MARK") == mark
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.once
def test_growth_against_a_baseline_fails(tmp_path):
    baseline, later = tmp_path / "baseline.json", tmp_path / "later.json"
    plan = ("--workers", "2", "--requests", "60", "--policy", "stock", "--url", "/sum")
    small, large = (["--env", f"APP_OBJECTS={count}"] for count in (1000, 60_000))
    first = pasture_try("steady_app:application", *plan, *small, "--json", str(baseline))
    assert first.returncode == 0

    done = pasture_try(
        "steady_app:application", *plan, *large, "--baseline", str(baseline), "--json", str(later)
    )

    assert done.returncode == errors.MemoryGrew.exit_code
    assert "private a worker of stock, total PSS of stock grew" in done.stderr
    document = json.loads(later.read_text())
    fastjsonschema.validate(json.loads(SCHEMA_FILE.read_text()), document)
    assert document["baseline"]["changes"][0]["grew"]


def try_program(
    *words: str, options: tuple[str, ...] = (), python: str = sys.executable, **environ: str
) -> tuple[int, str]:
    loop = str(PROGRAMS / "forking_loop.py")
    command = [sys.executable, "-m", "pasture", "try", *options, "--", python, loop, *words]
    environ = {**os.environ, **environ}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    return done.returncode, done.stdout + done.stderr


def test_a_program_that_forks_is_tried_as_it_is_and_sealed(tmp_path):
    file = tmp_path / "runs.json"
    options = ("--figure", "items/s: ([0-9.,]+)", "--json", str(file), "--log-dir", str(tmp_path))
    status, text = try_program("2", options=options)
    assert status == 0, text
    assert "Memory of 2 workers" in text
    assert f"next: pasture run -- {sys.executable} " in text
    stock, sealed = json.loads(file.read_text())["runs"]
    assert (stock["policy"], sealed["policy"]) == ("stock", "seal")
    assert stock["workers"] == sealed["workers"] == 2
    assert stock["figure"] == sealed["figure"] == 12345.5
    assert sealed["private_bytes"] < stock["private_bytes"] / 2
    assert sealed["note"] == "" and "sealed" in (tmp_path / "seal-0.log").read_text()


def test_a_bare_python_is_the_same_one_in_every_run(tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    status, text = try_program("2", python="python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (status, "Memory of 2 workers" in text) == (0, True), text


@pytest.mark.parametrize(
    ("words", "options", "status", "said"),
    [
        (("0",), (), errors.NotMeasurable.exit_code, "no worker of"),
        (("2", "3"), ("--policy", "stock"), errors.ServerFailed.exit_code, "exit code 3"),
        (("2",), ("--url", "/"), errors.UsageError.exit_code, "--url is for servers"),
        (("2",), ("--figure", "items"), errors.UsageError.exit_code, "--figure has no group"),
        (("2",), ("--policy", "refork"), errors.UsageError.exit_code, "refork is for servers"),
    ],
)
def test_what_cannot_be_tried_of_a_program_is_one_sentence(words, options, status, said):
    code, text = try_program(*words, options=options)
    assert (code, said in text, "Traceback" in text) == (status, True, False), text


def test_what_differs_from_the_server_s_own_command_is_not_approved(tmp_path):
    figures = tmp_path / "figures.json"
    done = pasture_try(
        "import_pid_app:application", *SMALL, "--json", str(figures), *policies("plain", "seal")
    )
    assert done.returncode == errors.AnswersDiffer.exit_code, done.stdout + done.stderr
    assert "seal answers differently: GET /: status 404 instead of 200" in done.stdout
    assert "next:" not in done.stdout
    assert json.loads(figures.read_text())["reference"] == "plain"


def test_a_configuration_with_pasture_s_line_is_plain_in_its_own_row(tmp_path):
    (tmp_path / "gunicorn.conf.py").write_text("from pasture.servers.gunicorn import *\n")
    (tmp_path / "app.py").write_text((PROGRAMS / "import_pid_app.py").read_text())
    logs = tmp_path / "logs"
    words = ("--log-dir", str(logs), *policies("plain"))
    done = pasture_try("app:application", *SMALL, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no seal: PASTURE=off is set" in (logs / "plain-1.server.log").read_text()
