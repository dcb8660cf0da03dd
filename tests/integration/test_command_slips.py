"""The first slips of a user: a file for a module, a name with a letter wrong, a word for a number.

Each comes to a sentence with what to do, and no traceback.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from running import pasture

pytestmark = pytest.mark.once


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(
        "def app(environ, start):\n    start('200 OK', [])\n    return [b'x']\n"
    )
    (tmp_path / "chained.py").write_text(
        "try:\n    import nothing_of_that_name\nexcept ImportError as e:\n"
        "    raise RuntimeError('settings are broken') from e\n"
    )
    return tmp_path


def answered(folder: Path, *words: str) -> tuple[int, str]:
    bin_folder = str(Path(sys.executable).parent)
    environ = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = pasture(*words, cwd=folder, env=environ)
    return done.returncode, done.stderr


BIND = ("-b", "127.0.0.1:0")
SLIPS = {
    "a file in the place of a module, try": (("try", "shop.py"), 2, "did you mean shop:app?"),
    "a file in the place of a module, run": (
        ("run", "gunicorn", "shop.py", *BIND),
        *(5, "did you mean shop:app?"),
    ),
    "a module with a letter wrong": (("run", "gunicorn", "shp:app", *BIND), 5, "mean shop:app?"),
    "a server with a letter wrong": (("run", "gunicron", "shop:app"), 2, "did you mean gunicorn?"),
    "a command with a letter wrong": (("image", "bild"), 2, "did you mean pasture image build?"),
    "a word for a pid": (("top", "abc"), 2, "'abc' is not a valid process id"),
    "a word for a number": (("top", "--interval", "x"), 2, "'x' is not a valid number"),
    "a module that is not there": (
        ("image", "build", "-o", "x.img", "--preload", "nothing_of_that_name"),
        *(17, "nothing_of_that_name cannot be imported"),
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_with_what_was_meant(shop: Path, slip: str) -> None:
    words, code, said = SLIPS[slip]
    returned, stderr = answered(shop, *words)
    assert (returned, said in stderr, "Traceback" in stderr) == (code, True, False), stderr


def test_chained_errors_of_an_import_are_the_applications(shop: Path) -> None:
    returned, stderr = answered(shop, "try", "chained:app", "--policy", "stock", "--policy", "seal")
    assert returned == 5, stderr
    assert "chained:app cannot be imported: RuntimeError: settings are broken" in stderr


def test_doctor_says_what_a_command_printed_that_ended_after_its_fork(shop: Path) -> None:
    returned, stderr = answered(shop, "doctor", "--", "gunicorn", "shp:app", *BIND)
    assert returned == 11, stderr
    assert "the command ended with status" in stderr
    assert "No module named 'shp'" in stderr and "there is no process" not in stderr
