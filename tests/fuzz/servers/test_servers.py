"""A random server of `make fuzz-servers`, and that a difference would be found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("celery")  # the environment of the check build has no servers

from application import server
from lives import gathered, left_in

FOLDER = Path(__file__).parent
pytestmark = pytest.mark.once


@pytest.mark.integration
def test_a_random_server_is_the_same_under_pasture() -> None:
    command = [sys.executable, str(FOLDER), "--servers", "1", "--first", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 programs: 0 differ" in done.stdout


def test_workers_are_compared_in_no_order() -> None:
    def noted(*values: str) -> dict[tuple[str, int, str], str]:
        return gathered({(f"step 1 > {pid}", 1, "a"): value for pid, value in enumerate(values)})

    assert noted("1", "2") == noted("2", "1") != noted("1", "1")
    assert noted("1", "2")["step 1", 1, "a of workers"] == "differ"


def test_files_are_compared_by_their_lines_and_not_by_names_of_chance(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("a\nb\na\n")
    for name in ("tmp1a2", "tmpb34"):
        (tmp_path / name).touch()
    assert left_in(tmp_path) == {"out.txt 100644", "out.txt: a", "out.txt: b", "tmpN 100644"}


def test_a_server_is_made_of_its_number_alone(tmp_path: Path) -> None:
    assert server(5, tmp_path) == server(5, tmp_path) != server(6, tmp_path)
