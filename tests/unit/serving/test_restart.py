"""What one start of a server passes to the next, in a variable of its own."""

import multiprocessing.process
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pasture.serving import restart

WHY = "the probe failed: GET /: hung in\nwait"


@pytest.fixture(autouse=True)
def imported_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this process, as by a server; that of the tests may have been forked since."""
    monkeypatch.setattr(restart, "_pid", os.getpid())


@pytest.mark.parametrize(
    "text", [None, "", "7", "7 ", "GET / hung", "{}", "8 plain GET /: hung", "7 so GET /"]
)
def test_a_variable_of_another_process_or_of_another_form_says_nothing(text: str | None) -> None:
    assert restart.parse(text, 7) == ("", "")
    assert restart.parse("7 plain GET /: hung", 7) == ("plain", "GET /: hung")


READ = """
import os, subprocess, sys
os.environ["PASTURE_PLAIN"] = f"{int(sys.argv[1]) or os.getpid()} plain since it hangs"
from pasture.serving import restart
print(restart.why_plain, restart.VARIABLE in os.environ, restart.VARIABLE in restart.first_environ)
"""


@pytest.mark.parametrize(("pid", "why"), [(0, "since it hangs"), (1, "None")])
def test_only_the_process_that_it_was_written_for_is_plain_and_its_children_do_not_inherit_it(
    pid: int, why: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(pid)], stdout=subprocess.PIPE, check=True, text=True
    )
    assert done.stdout == f"{why} False False\n"


def test_the_new_start_has_the_first_environment_and_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: done.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(restart, "_open_files", frozenset)
    monkeypatch.setenv("SET_BY_THE_APPLICATION", "1")
    restart.again(WHY, command=["/bin/true", "x"])
    ((program, arguments, environ),) = done
    assert (program, arguments) == ("/bin/true", ["/bin/true", "x"])
    assert "SET_BY_THE_APPLICATION" not in environ
    assert restart.parse(environ[restart.VARIABLE], os.getpid()) == ("plain", WHY)


def test_a_variable_never_outgrows_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environ: done.append(environ))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(restart, "_open_files", frozenset)
    restart.again("x\0" * 200_000, command=["/bin/true", "x"])
    assert 0 < len(done[0][restart.VARIABLE]) < 10_000 and "\0" not in done[0][restart.VARIABLE]


@pytest.mark.parametrize("arguments", [["/bin/python"], ["", "x"], ["/bin/python", "-"]])
def test_a_program_that_was_not_named_is_not_started_anew(arguments: list[str]) -> None:
    restart.again(WHY, command=arguments)


def test_a_process_that_another_program_has_forked_is_not_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert restart.is_possible()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 1)
        assert not restart.is_possible()
    with monkeypatch.context() as started:
        started.setattr(multiprocessing.process, "parent_process", lambda: "the launcher")
        assert not restart.is_possible()


def test_a_server_in_the_background_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "_pid", restart._pid)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    restart.went_into_background()
    assert restart.is_possible()


def test_a_process_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    directory = Path.cwd()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        command = [str(tmp_path / "removed"), "x"]
        restart.again(WHY, command=command, directory=str(tmp_path), kept={reader: reader})
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


def test_files_have_the_numbers_of_the_new_start_and_theirs_again_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that change places, one in the place of a third file, and one at a free number."""
    paths = [tmp_path / name for name in "abc"]
    first, second, third = (os.open(path, os.O_CREAT) for path in paths)
    free = os.dup(first)
    os.close(free)
    kept = {first: second, second: first, third: first, free: second}
    seen: dict[int, tuple[str, bool]] = {}

    def refuse(*_: object) -> None:
        for number in kept:
            name = Path(f"/proc/self/fd/{number}").readlink().name
            seen[number] = (name, os.get_inheritable(number))
        raise FileNotFoundError

    monkeypatch.setattr(os, "execve", refuse)
    before = restart._open_files()
    try:
        restart.again(WHY, command=["/bin/true", "x"], kept=kept)
        assert seen == {
            first: ("b", True),
            second: ("a", True),
            third: ("a", True),
            free: ("b", True),
        }
        assert restart._open_files() == before
        found = [Path(f"/proc/self/fd/{file}").readlink() for file in (first, second, third)]
        assert found == paths
        assert not any(map(os.get_inheritable, (first, second, third)))
    finally:
        for file in (first, second, third):
            os.close(file)
