"""`pasture doctor`: its status, its JSON, and whom it looks at. Nothing is measured."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from pasture.errors import ObstaclesFound, ProcessEnded, ServerFailed, UsageError
from pasture.proc import tree
from pasture.proc.smaps import Memory
from pasture_tools.cli import doctor
from pasture_tools.doctor import server, waits
from pasture_tools.doctor.evidence import Evidence, Worker
from pasture_tools.doctor.notes import Notes
from pasture_tools.doctor.threads import Thread

SHARED = Memory(100_000_000, 40_000_000, 0, 10_000_000, 90_000_000)
HEALTHY = Evidence(
    master_pid=7,
    command=("python", "gunicorn"),
    environ={},
    master=SHARED,
    workers=(Worker(SHARED),),
    threads=(),
    files=("/usr/bin/python3.14",),
    huge_pages="never",
    notes=Notes(),
)

BUILT = SimpleNamespace(
    module="pandas", largest="pandas.core.frame", entry="module pandas", bytes=2_600_000
)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pids that were looked at; each is a healthy server's, but 13, which has a thread."""
    pids: list[int] = []

    def gather(pid: int) -> Evidence:
        pids.append(pid)
        threads = (Thread("ticker", waits=False),) if pid == 13 else HEALTHY.threads
        return replace(HEALTHY, master_pid=pid, threads=threads)

    monkeypatch.setattr(doctor, "gather", gather)
    monkeypatch.setattr(doctor, "built_alone", lambda _evidence: [BUILT])
    monkeypatch.setattr(server, "server_of", lambda pid, _command: pid)
    monkeypatch.setattr(tree, "only_master", lambda _command: 42)
    return pids


def run(*arguments: str) -> Result:
    return CliRunner().invoke(doctor.command, arguments)


def test_a_worker_that_ends_while_it_is_looked_at_is_no_matter_of_privilege(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, worker = waits.look, subprocess.Popen(["sleep", "60"])

    def ends(pid: int) -> waits.Process:
        worker.kill()
        worker.wait()
        return look(pid)

    monkeypatch.setattr(waits, "look", ends)
    result = run("--hung", str(worker.pid))
    assert isinstance(result.exception, ProcessEnded)


def test_a_healthy_server_ends_with_status_0(looked_at: list[int]) -> None:
    result = run("7")
    assert result.exit_code == 0 and looked_at == [7]
    assert "nothing stands in the way" in result.output
    assert result.output.splitlines()[-1].split() == ["2.6", "MB", "module", "pandas"]


def test_large_imports_of_a_worker_are_an_obstacle_that_a_preload_ends(
    looked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BUILT, "bytes", 26_000_000)
    state, first, cost, fix, *_ = run("7").output.splitlines()
    assert state == "loading"
    assert first == "! own-imports: a worker imported these modules while serving: pandas (26.0 MB)"
    assert (
        "about 26.0 MB" in cost and "`pasture run --preload pandas.core.frame` imports most" in fix
    )


def test_without_a_target_the_only_server_is_looked_at(looked_at: list[int]) -> None:
    assert run().exit_code == 0
    assert looked_at == [42]


def test_an_obstacle_is_an_error_after_the_findings_are_printed_and_written(
    looked_at: list[int], tmp_path: Path
) -> None:
    result = run("13", "--json", str(tmp_path / "found.json"))
    assert isinstance(result.exception, ObstaclesFound)
    assert "! threads: " in result.output and "ticker" in result.output
    assert "fix:" in result.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["master"] == 13
    assert found["state"] == {"kind": "loading", "why": ""}
    assert [each["check"] for each in found["findings"] if each["is_obstacle"]] == ["threads"]


def test_a_command_that_cannot_be_started_is_named() -> None:
    error = run("--", "/nowhere/server").exception
    assert isinstance(error, UsageError) and "cannot run /nowhere/server" in str(error)


def test_a_server_that_is_not_on_the_path_is_not_meant_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    error = run("--", "gunicorn", "app:app").exception
    assert isinstance(error, UsageError) and "did you mean" not in error.hint
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gunicorn").touch()
    error = run("--", "gunicorn", "app:app").exception
    assert isinstance(error, UsageError)
    assert error.hint == f"it is not on the PATH: {tmp_path}/bin/gunicorn"


def test_a_command_that_ends_by_itself_forked_no_worker() -> None:
    error = run("--", "sh", "-c", "exit 3").exception
    assert isinstance(error, ServerFailed) and "ended with status 3" in str(error)
