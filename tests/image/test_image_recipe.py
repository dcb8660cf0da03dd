"""Recipes, and folders that keep an image for each circumstance."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from images import BIN, Images, until

pytestmark = [pytest.mark.once, pytest.mark.integration]

PROGRAM = """
import csv, asks
import importlib, os, sys
importlib.import_module("wave")
sys.path.insert(0, {hidden!r})
import beside_it
sys.modules["broken"] = type(sys)("broken")
os.environ["ONLINE"] = "0"
import decimal
print(asks.MODE, csv.QUOTE_ALL, decimal.Decimal(1))
print(sys.modules["sitecustomize"].MARK, os.environ["PYTHONPATH"])
"""


@pytest.fixture
def application(own_images: Images) -> Images:
    own_images.module("asks", "import os; MODE = os.environ.get('APP_MODE')")
    own_images.module("sitecustomize", "MARK = 'own'")
    hidden = own_images.folder / "hidden"
    hidden.mkdir()
    (hidden / "beside_it.py").write_text("")
    (own_images.folder / "app.py").write_text(PROGRAM.format(hidden=str(hidden)))
    return own_images


def recipe(images: Images) -> Path:
    path, program = images.folder / "app.recipe", str(images.folder / "app.py")
    words = ("-o", str(path), "--", str(BIN / "python"), program, "two\nlines")
    done = images.pasture("recipe", *words)
    assert done.returncode == 0, done.stderr
    # It finds its own start file, and programs that it starts are not watched.
    assert done.stdout.encode() == images.python(program).out
    return path


def test_a_recipe_names_what_a_program_imports_before_it_changes_its_environment(
    application: Images,
) -> None:
    comments, *preload = recipe(application).read_text().split("--preload ")
    found = [line.strip() for line in preload]
    assert found[:2] == ["csv", "asks"] and "wave" in found  # `importlib` was asked for that one
    assert not {"decimal", "beside_it", "broken", "json", "app"} & {*found}
    assert "os.environ['ONLINE']" in comments


def test_a_program_that_cannot_be_watched_has_no_recipe(own_images: Images) -> None:
    for words, said in ((["/no/such"], "cannot be started"), (["/bin/true"], "nothing was seen")):
        done = own_images.pasture("recipe", "--", *words)
        assert (done.returncode != 0, said in done.stderr) == (True, True), done.stderr
    (bad := own_images.folder / "bad").write_text('--preload "json\n')
    done = own_images.build(str(bad))
    assert (done.returncode, "makes no sense" in done.stderr) == (2, True)
    bad.write_text("--help --preload json\n")
    done = own_images.build(str(bad))
    assert (done.returncode, "has '--help'" in done.stderr) == (2, True)


def test_the_recipe_of_a_server_is_written_when_it_is_stopped(own_images: Images) -> None:
    path, said = own_images.folder / "app.recipe", own_images.folder / "said"
    server = "import csv, time\nprint(1, flush=True)\ntry: time.sleep(600)\nfinally: print(2)"
    words = (BIN / "python", "-c", server)
    for number, status in ((signal.SIGINT, -2), (signal.SIGTERM, -15)):
        path.unlink(missing_ok=True)
        with said.open("wb") as file, subprocess.Popen(
            [sys.executable, "-m", "pasture", "image", "recipe", "-o", path, "--", *words],
            stdout=file, env=own_images.environ, start_new_session=True,
        ) as watching:  # fmt: skip
            until(lambda: b"1" in said.read_bytes(), "the server does not run")
            os.killpg(watching.pid, number)
        if number == signal.SIGINT:
            assert (watching.returncode, said.read_text()) == (0, "1\n2\n")
            assert f"ended with status {status}" in path.read_text()
            assert "--preload csv\n" in path.read_text()
        else:  # the program has no handler, and its functions of atexit do not run
            assert watching.returncode not in (0, 1) and not path.exists()


def test_a_relative_folder_and_one_that_another_user_locks_serve_as_others_do(
    application: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(application.folder)
    application.folder.joinpath("images").mkdir()
    number = os.open("images", os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    for is_made in (True, False):
        words = ("build", "-o", "images/", "--preload", "asks")
        done = application.pasture(*words, environ={"APP_MODE": "fast"})
        assert ("built again with APP_MODE" in done.stdout) is is_made, done.stdout
        assert (" fits" in done.stdout) is not is_made
    os.close(number)


def test_a_line_before_a_program_makes_the_image_of_its_circumstance_once(
    application: Images,
) -> None:
    folder = application.folder / "images"
    words = ("build", "-o", f"{folder}/", str(recipe(application)))
    application.image = folder
    program = str(application.folder / "app.py")
    for given in ({}, {"APP_MODE": "pipeline"}, {"APP_MODE": "cron", "API_TOKEN": "5e0cb1d7"}):
        made = application.pasture(*words, environ=given)
        assert (made.returncode, " fits" in made.stdout) == (0, False), made.stderr
        again = application.pasture(*words, environ=given)
        assert again.stdout.strip().endswith(" fits"), again.stdout
        by_python = application.python(program, environ=given)
        assert application.served(program, environ=given) == by_python
    assert len([*folder.glob("*.img")]) == 3
    assert b"5e0cb1d7" not in b"".join(path.read_bytes() for path in folder.glob("*.img"))


def test_a_folder_keeps_no_more_images_than_a_start_looks_at(application: Images) -> None:
    folder = application.folder / "images"
    folder.mkdir()
    for number in range(40):  # one of them is to be made in the future
        for name in (f"{number:016x}-{number:016x}.img", f"users{number}.img"):
            (folder / name).write_text("")
            os.utime(folder / name, (number << 28, number << 28))
    (folder / "gone.img").symlink_to("nowhere")
    done = application.pasture("build", "-o", f"{folder}/", "--preload", "asks")
    assert done.returncode == 0, done.stderr
    assert len([*folder.glob("*-*.img")]) == 32 and len([*folder.glob("users*.img")]) == 40
    for number in range(40):  # a start looks at the newest of all
        (folder / f"{number}.img").write_text("")
        os.utime(folder / f"{number}.img", (1, 1))
    os.utime(folder / f"{39:016x}-{39:016x}.img", (1, 1))
    assert application.why(environ={"PASTURE_IMAGE": f"{folder}/"}) == ""


def test_options_of_a_recipe_are_the_builds_and_given_ones_come_after(own_images: Images) -> None:
    (path := own_images.folder / "app.recipe").write_text("--mode 640 --preload json # the first\n")
    own_images.built("--preload", "decimal", str(path))
    assert own_images.document()["preload"] == ["json", "decimal"]
    assert own_images.image.stat().st_mode & 0o777 == 0o640


def test_variables_are_named_by_their_beginning(application: Images) -> None:
    application.built("--preload", "asks", "--env-prefix", "APP_", environ={"APP_MODE": "x"})
    assert application.why(environ={"APP_MODE": "x"}) == ""
    assert application.why().endswith(": APP_MODE")
