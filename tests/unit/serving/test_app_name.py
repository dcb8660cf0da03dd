"""What a mistyped application was meant for, as a hint says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pasture.serving.app_name import did_you_mean, guess

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text("from flask import Flask\nx = 1\napi: object = Flask('a')\n")
    (tmp_path / "made.py").write_text("def create_app(): ...\n")
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "__init__.py").touch()
    (tmp_path / "site" / "wsgi.py").write_text("import os\napplication = None\n")
    return tmp_path


@pytest.mark.parametrize(
    ("app", "meant"),
    [
        ("shop.py", "shop:api"),
        ("shop.py:x", "shop:x"),
        ("./shop.py", "shop:api"),
        ("site/wsgi.py", "site.wsgi:application"),
        ("made.py", "made:create_app()"),
        ("broken.py", "broken:app"),
        ("shp:app", "shop:app"),
        ("sit.wsgi:app", "site.wsgi:app"),
        ("shop:api", ""),
        ("shop:ap", "shop:api"),
        ("site.wsgi:aplication", "site.wsgi:application"),
        ("made:creat_app", "made:create_app()"),
        ("made:create_app()", ""),
        ("shop:unlike", ""),
        ("broken:ap", ""),
        ("elsewhere:app", ""),
        ("absent.py", ""),
        ("", ""),
        ("\0:app", ""),
        ("/etc/passwd.py", ""),
    ],
)
def test_a_slip_is_known_by_the_files_that_are_there(folder: Path, app: str, meant: str) -> None:
    assert guess(app, folder) == meant
    assert did_you_mean(app, folder) == (f"did you mean {meant}?" if meant else "")


def test_without_a_folder_there_is_no_guess(tmp_path: Path) -> None:
    assert guess("shp:app", tmp_path / "gone") == ""


@pytest.mark.parametrize("engine", ["gunicorn.__main__", "uvicorn.supervisor"])
def test_a_server_whose_application_is_there_loads_nothing_of_it(engine: str) -> None:
    pytest.importorskip(engine.partition(".")[0])
    program = (
        f"import sys, pasture.servers.{engine}\nprint('pasture.serving.app_name' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
