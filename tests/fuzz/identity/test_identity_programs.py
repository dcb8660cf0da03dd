"""A few of the random programs of `make fuzz-identity`, and that a difference would be found."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from alike import Outcome, differences, documented
from generator import program
from ways import outcome

FOLDER = Path(__file__).parent
pytestmark = [pytest.mark.once, pytest.mark.timeout(600)]
PROGRAMS = 12


@pytest.mark.integration
@pytest.mark.skipif(None in map(find_spec, ("numpy", "pasture_image")), reason="images have numpy")
def test_random_programs_are_the_same_in_each_way_that_pasture_runs_them() -> None:
    command = [sys.executable, str(FOLDER), "--programs", str(PROGRAMS), "--first", "1000000"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{PROGRAMS} programs: 0 differ" in done.stdout


def ended(status: int = 0, stdout: str = "", **notes: str) -> Outcome:
    return Outcome(status, {"stdout": stdout}, {("main", 1, k): v for k, v in notes.items()})


PLAIN = (
    ended(0, "a 1 b\n", pid="10", again="10", drawn="7", cwd="/"),
    ended(0, "a 2 b\n", pid="20", again="20", drawn="8", cwd="/"),
)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (PLAIN, None),
        ((ended(1, "a 3 b\n"), ended(1, "a 3 b\n")), "status"),
        ((ended(0, "c 3 b\n"), ended(0, "c 3 b\n")), "stdout"),
        ((ended(0, "a 3 b\n", pid="30"), ended(0, "a 3 b\n", pid="31")), "main 1: cwd"),
    ],
)
def test_status_output_and_what_a_process_has_taken_are_compared(
    other: tuple[Outcome, Outcome], name: str | None
) -> None:
    found = dict(differences(PLAIN, other))
    assert name in found if name is not None else found == {}


def test_values_that_vary_are_compared_with_each_other_and_from_run_to_run() -> None:
    def run(number: int, again: int, drawn: int) -> Outcome:
        return ended(
            0, f"a {number} b\n", pid=f"{number}", again=f"{again}", drawn=f"{drawn}", cwd="/"
        )

    assert dict(differences(PLAIN, (run(30, 30, 9), run(31, 31, 11)))) == {}
    apart = dict(differences(PLAIN, (run(30, 33, 9), run(31, 34, 11))))
    assert apart == {"main 1: again and main 1: pid": "equal -> differ"}
    raced = (replace(PLAIN[0], status=3), PLAIN[1])
    assert dict(differences(raced, PLAIN)) == {}
    same = dict(differences(PLAIN, (run(30, 30, 9), run(31, 31, 9))))
    assert same == {"main 1: drawn": "is another one in each run -> always '9'"}


def test_what_is_left_where_temporary_files_go_is_compared(tmp_path: Path) -> None:
    lines = "import tempfile, sys; tempfile.mkdtemp(); sys.exit(4)"
    one = replace(program(5, tmp_path), source=lines, way="command", options=(), variables={})
    one = replace(one, ignored=(), blocked=(), closed=(), opened=())
    base = {"PATH": os.environ["PATH"], "HOME": f"{tmp_path}"}
    ended = outcome("plain", one, base, tmp_path / "no.img", tmp_path / "work")
    assert (ended.status, ended.texts["temporary"]) == (4, "tmp")


def test_an_end_among_emptied_modules_is_not_asked_for() -> None:
    plain = ended(held="TypeError: 'NoneType' object is not callable")
    assert dict(differences((plain, plain), (ended(held="7"), ended(held="8")))) == {}
    plain = ended(held="ValueError: x")
    assert "main 1: held" in dict(differences((plain, plain), (ended(held="7"),) * 2))


def test_lines_that_a_child_writes_again_may_be_there_once() -> None:
    plain = (ended(stdout="a\na\nb\n"),) * 2
    assert dict(differences(plain, (ended(stdout="a\nb\n"),) * 2)) == {}
    for other in ("a\n", "a\na\nb\nb\n", "a\na\nb\nc\n"):
        assert "stdout" in dict(differences(plain, (ended(stdout=other),) * 2))


def test_what_is_documented_covers_children_alone() -> None:
    assert documented("main > child 0 1: deleted", image=False)
    assert documented("main > child 0 1: counted", image=False)
    assert not documented("main 1: deleted", image=False)
    assert documented("main 1: hash('a text')", image=True)
    assert not documented("main 1: hash('a text')", image=False)


def test_a_program_is_made_of_its_number_alone(tmp_path: Path) -> None:
    assert program(5, tmp_path) == program(5, tmp_path) != program(6, tmp_path)
