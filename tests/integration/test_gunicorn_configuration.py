"""Under the user's own configuration: his hooks, his program, his mistakes."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gunicorn import version_info
from running import TIMEOUT_S

pytestmark = pytest.mark.usefixtures("small_herd")

PROGRAMS = Path(__file__).parent.parent / "programs"
SEALED = "pasture: policy seal on "
HOOKS = {
    "on_starting": "server",
    "when_ready": "server",
    "pre_fork": "server, worker",
    "post_fork": "server, worker",
    "post_worker_init": "worker",
    "worker_exit": "server, worker",
    "child_exit": "server, worker",
    "nworkers_changed": "server, new, old",
    "on_exit": "server",
}
CONF_WITH_HOOKS = "import sys\n" + "".join(
    f"def {name}({parameters}):\n    print('hook {name} ran', file=sys.stderr, flush=True)\n"
    for name, parameters in HOOKS.items()
)


@pytest.mark.parametrize("plain", [False, True], ids=["pasture-run", "plain-gunicorn"])
def test_all_hooks_of_the_user_run(serve, plain):
    star = "from pasture.servers.gunicorn import *\n" if plain else ""
    server = serve(plain=plain, conf=star + CONF_WITH_HOOKS, workers=1)
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.count(SEALED) == 1
    assert server.log.index("hook pre_fork ran") < server.log.index(SEALED)
    assert server.log.index(SEALED) < server.log.index("hook post_fork ran")
    assert server.stop() == 0
    for name in HOOKS:
        assert f"hook {name} ran" in server.log


def test_a_configuration_file_chooses_policy_and_warm_up(serve):
    conf = """
from pasture.servers.gunicorn import configure
configure(policy="warm-freeze", warm=["/who", "Cookie: a=b"])
"""
    server = serve(plain=True, conf=conf)
    assert "pasture: policy warm-freeze on " in server.log
    assert server.get("/who")["served_by"][0] == server.process.pid


def test_options_of_pasture_run_win_over_the_configuration_file(serve):
    conf = "from pasture.servers.gunicorn import configure\nconfigure(policy='freeze')"
    server = serve(conf=conf, options=("--policy", "stock"))
    assert "pasture: policy stock on " in server.log


def test_gunicorn_without_the_line_in_its_configuration_is_not_touched(serve):
    assert "pasture" not in serve(plain=True).log


def test_an_unknown_policy_is_reported_without_a_traceback(serve):
    conf = "from pasture.servers.gunicorn import *"
    server = serve(plain=True, conf=conf, env={"PASTURE_POLICY": "seel"}, ready=False)
    assert server.wait_for_end() == 4
    assert "did you mean seal?" in server.log
    assert "Traceback" not in server.log


def test_an_application_that_cannot_be_imported_is_reported_with_its_own_exit_code(serve):
    server = serve(app="herd_app:no_such_name", ready=False)
    assert server.wait_for_end() == 5
    assert "error: herd_app:no_such_name cannot be imported: " in server.log
    assert "Failed to find attribute 'no_such_name'" in server.log


def test_an_import_that_fails_in_the_parent_is_left_to_workers_whose_status_counts(serve):
    server = serve(env={"HERD_BROKEN": "1"}, ready=False)
    assert server.wait_for_end() in (1, 3)  # gunicorn's own, as it happens
    assert "RuntimeError: this application is broken" in server.log
    assert "the import failed in the parent: herd_app:app cannot be imported" in server.log
    assert "Worker failed to boot" in server.log


@pytest.mark.parametrize("asked", [False, True])
def test_a_worker_that_cannot_start_ends_the_server_with_gunicorns_own_status(serve, asked):
    conf = f"preload_app = {asked}\ndef post_worker_init(worker):\n    raise OSError('no luck')"
    server = serve(conf=conf, ready=False, workers=1)
    assert server.wait_for_end() == 3
    assert "Worker failed to boot" in server.log


@pytest.mark.parametrize("plain", [False, True], ids=["pasture-run", "plain-gunicorn"])
def test_no_place_for_the_workers_temporary_files_is_an_error_with_a_hint(serve, tmp_path, plain):
    star = "from pasture.servers.gunicorn import *\n" if plain else ""
    conf = f"{star}worker_tmp_dir = {str(tmp_path / 'missing')!r}"
    server = serve(plain=plain, conf=conf, ready=False)
    assert server.wait_for_end() == 2
    assert "error: no temporary file can be made: " in server.log
    assert "hint: give gunicorn --worker-tmp-dir" in server.log
    assert "Traceback" not in server.log


def test_a_policy_in_a_custom_application_is_sealed_too(serve, tmp_path):
    (tmp_path / "custom.py").write_text(
        """
import sys
import pasture.servers.gunicorn
from gunicorn.app.base import BaseApplication
from herd_app import app

class Custom(BaseApplication):
    def load_config(self):
        self.cfg.set("bind", sys.argv[1])
        self.cfg.set("workers", 1)

    def load(self):
        return app

Custom().run()
"""
    )
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "custom.py"), f"unix:{tmp_path / 'socket'}"],
            env={**os.environ, "PYTHONPATH": str(PROGRAMS), "HOME": str(tmp_path)},
            stderr=stream,
        )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while "Booting worker" not in log.read_text():
            assert time.monotonic() < deadline and process.poll() is None, log.read_text()
            time.sleep(0.05)
        assert SEALED in log.read_text()
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.skipif(version_info < (25, 1), reason="this gunicorn has no control socket")
def test_the_control_socket_comes_after_the_seal_and_works_across_later_forks(serve):
    client_module = pytest.importorskip("gunicorn.ctl.client")
    server = serve(workers=1)
    server.wait_until_it_logs("Control socket listening")
    assert server.log.index(SEALED) < server.log.index("Control socket listening")
    assert stat.S_ISSOCK(server.control_socket.stat().st_mode)
    with client_module.ControlClient(str(server.control_socket)) as client:
        assert len(client.send_command("show workers")["workers"]) == 1
        client.send_command("worker add 1")
    server.wait_for(lambda: len(server.workers()) == 2, "a second worker")
    server.wait_until_it_logs("Control socket listening", times=2)
    with client_module.ControlClient(str(server.control_socket)) as client:
        assert len(client.send_command("show workers")["workers"]) == 2
    assert server.log.count(SEALED) == 1
