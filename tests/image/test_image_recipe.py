"""Recipes, and folders that keep an image for each circumstance."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from images import BIN, Images

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
    for number in range(40):
        (folder / f"{number}.img").write_text("")
        os.utime(folder / f"{number}.img", (number, number))
    done = application.pasture("build", "-o", f"{folder}/", "--preload", "asks")
    assert done.returncode == 0, done.stderr
    assert len([*folder.glob("*.img")]) == 32


def test_options_of_a_recipe_are_the_builds_and_given_ones_come_after(own_images: Images) -> None:
    (path := own_images.folder / "app.recipe").write_text("--mode 640 --preload json # the first\n")
    own_images.built("--preload", "decimal", str(path))
    assert own_images.document()["preload"] == ["json", "decimal"]
    assert own_images.image.stat().st_mode & 0o777 == 0o640


def test_variables_are_named_by_their_beginning(application: Images) -> None:
    application.built("--preload", "asks", "--env-prefix", "APP_", environ={"APP_MODE": "x"})
    assert application.why(environ={"APP_MODE": "x"}) == ""
    assert application.why().endswith(": APP_MODE")
