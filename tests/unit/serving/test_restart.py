"""What one start of a server passes to the next, in a variable of its own."""

import json
import multiprocessing.process
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from pasture.serving import restart, warming
from pasture.serving.restart import LeftOut
from pasture.serving.settings import read_environment

LEFT_OUT = LeftOut("warm-up", "GET /: hung", {"GET /": (200, 0.5)})


@pytest.fixture(autouse=True)
def imported_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this process, as by a server; that of the tests may have been forked since."""
    monkeypatch.setattr(restart, "_pid", os.getpid())


def test_what_is_left_out_is_read_as_it_was_written() -> None:
    assert restart.parse(json.dumps(asdict(LEFT_OUT))) == LEFT_OUT


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", '{"what": "warm-up"}', '{"answers": 1}']
)
def test_a_variable_that_makes_no_sense_leaves_nothing_out(text: str | None) -> None:
    assert restart.parse(text) is None


def test_the_new_start_has_the_first_environment_and_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: done.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(restart, "_open_files", frozenset)
    monkeypatch.setenv("SET_BY_THE_APPLICATION", "1")
    restart.again(LEFT_OUT, arguments=["/bin/true", "x"])
    ((program, arguments, environ),) = done
    assert (program, arguments) == ("/bin/true", ["/bin/true", "x"])
    assert "SET_BY_THE_APPLICATION" not in environ
    assert restart.parse(environ[restart.VARIABLE]) == LEFT_OUT


def test_a_variable_never_outgrows_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environ: done.append(environ))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(restart, "_open_files", frozenset)
    many = {f"GET /{number:0100}": (200, 0.5) for number in range(2_000)}
    restart.again(LeftOut("warm-up", "why", many), arguments=["/bin/true", "x"])
    assert restart.parse(done[0][restart.VARIABLE]) == LeftOut("warm-up", "why", {})


@pytest.mark.parametrize("arguments", [["/bin/python"], ["", "x"], ["/bin/python", "-"]])
def test_a_program_that_was_not_named_is_not_started_anew(arguments: list[str]) -> None:
    restart.again(LEFT_OUT, arguments=arguments)


def test_a_process_that_another_program_has_forked_is_not_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "_arguments", ["/bin/python", "launcher.py"])
    assert restart.is_possible()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 1)
        assert not restart.is_possible()
    with monkeypatch.context() as started:
        started.setattr(multiprocessing.process, "parent_process", lambda: "the launcher")
        assert not restart.is_possible()


def test_a_server_in_the_background_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "_arguments", ["/bin/python", "server.py"])
    monkeypatch.setattr(restart, "_pid", restart._pid)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    restart.went_into_background()
    assert restart.is_possible()


def test_a_process_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "_directory", str(tmp_path))
    monkeypatch.setattr(sys, "stdout", None)
    directory = Path.cwd()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        restart.again(LEFT_OUT, arguments=[str(tmp_path / "removed"), "x"], kept=[reader])
        assert signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert (os.get_inheritable(reader), os.get_inheritable(writer)) == (False, True)
        assert Path.cwd() == directory
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(reader)
        os.close(writer)


def test_the_files_of_the_start_are_open_ones() -> None:
    """The one that lists them is closed, and its number may be the next file's."""
    reader, writer = os.pipe()
    os.close(reader)  # the lowest number that is free: the list's own
    try:
        assert reader not in restart._open_files()
        assert writer in restart._open_files()
    finally:
        os.close(writer)


def test_a_start_without_the_warm_up_serves_nothing_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "earlier", LEFT_OUT)
    settings = read_environment({"PASTURE_WARM": "/"})
    report = warming.warm_up_as_set(print, settings, host="example.org")
    assert (report.application, report.host, report.answers) == (print, "example.org", ())
    assert report.refused == "left out, since the probe of an earlier start failed: GET /: hung"
