"""`--strict` ends a server rather than let it fork with what a fork breaks."""

import json
import signal
import sys
import textwrap

import pytest
from running import completed

pytestmark = pytest.mark.usefixtures("small_herd")

LISTENS = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
os.environ["LISTENS"] = str(server.getsockname()[1])
"""
CONNECTED = """
import os, socket
client = socket.create_connection(("127.0.0.1", int(os.environ["LISTENS"])))
{close}
from herd_app import app
"""


@pytest.fixture
def connected(tmp_path):
    """Write an application that holds a connection, or one that closes it before the fork."""

    def write(close=""):
        (tmp_path / "connected.py").write_text(CONNECTED.format(close=close))
        return "connected:app"

    return write


def test_without_it_a_connection_that_is_accepted_is_reported_and_the_server_runs(serve, connected):
    server = serve(conf=LISTENS, app=connected(), options=("--accept", "connections"))
    assert "does not survive a fork: close it in a function under @pasture.before" in server.log
    assert "pasture: policy seal on " in server.log
    assert server.get("/who")["pid"] in server.workers()


def test_with_it_a_connection_ends_the_server_before_any_worker(serve, connected, tmp_path):
    pidfile = tmp_path / "pid"
    server = serve(
        *("--pid", str(pidfile)),
        conf=LISTENS,
        app=connected(),
        options=("--strict",),
        ready=False,
    )
    assert server.wait_for_end() == 12
    assert "error: the process is not safe to fork: the connection to 127.0.0.1:" in server.log
    assert "hint: " in server.log and "Traceback" not in server.log
    assert "Booting worker" not in server.log
    assert not pidfile.exists()


def test_what_is_closed_before_the_fork_is_no_reason(serve, connected):
    close = "import pasture\npasture.before_fork(client.close)"
    server = serve(conf=LISTENS, app=connected(close), options=("--strict",))
    assert "does not survive" not in server.log
    assert server.stop(signal.SIGTERM) == 0


def test_with_it_a_thread_ends_the_server_under_a_policy_that_could_live_with_it_too(serve):
    options = ("--strict", "--policy", "freeze")
    server = serve(env={"HERD_THREAD": "1"}, options=options, ready=False)
    assert server.wait_for_end() == 12
    assert "not safe to fork: thread herd-thread" in server.log


@pytest.mark.interpreter
def test_seal_raises_before_it_touches_the_heap():
    program = textwrap.dedent("""
        import gc, json, socket, pasture
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        at_start = gc.get_freeze_count()  # CPython 3.12 freezes what it starts with
        try:
            pasture.seal(strict=True)
        except pasture.SealFailed as error:
            message = error.message
        frozen = gc.get_freeze_count() - at_start
        report = pasture.seal()
        print(json.dumps([message, frozen, report.sealed, report.step("survey").problems]))
    """)
    done = completed([sys.executable, "-c", program])
    message, frozen, sealed, problems = json.loads(done.stdout)
    assert message.startswith("the process is not safe to fork: the connection to 127.0.0.1:")
    assert frozen == 0 and sealed is True
    assert len(problems) == 1


def test_a_hub_of_gevents_is_refused_where_the_fork_is_not_gevents(tmp_path):
    pytest.importorskip("gevent")
    program = tmp_path / "with_a_hub.py"
    command = [sys.executable, "-m", "pasture", "run", "--strict", "--", "python", str(program)]
    for patch, code in (("pass", 12), ("monkey.patch_all()", 0)):
        program.write_text(
            f"from gevent import monkey, sleep\n{patch}\nimport os\nsleep(0)\n"
            "if os.fork() == 0:\n    sleep(0.01)\n    os._exit(0)\nassert os.wait()[1] == 0\n"
        )
        done = completed(command)
        assert done.returncode == code, done.stderr
        assert ("gevent's hub, which this fork does not renew" in done.stderr) is bool(code)
