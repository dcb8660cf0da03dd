"""A program's folder comes first on the search path: its modules are used, not an image's."""

from __future__ import annotations

import py_compile
import zipfile
from pathlib import Path

import pytest
from images import BIN, STUB, Ended, Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

MINE = "MINE = True\n"


def written(path: Path, text: str = MINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """An image of modules of a folder on the path: a module, a package, one without a file in it,
    one that looks in vain for another; some of the library's."""
    images = Images(tmp_path_factory.mktemp("p"))
    lib = images.lib
    written(lib / "settings_app.py", "MINE = False\n")
    written(lib / "package_app" / "__init__.py", "MINE = False\n")
    written(lib / "open_app" / "part.py", "MINE = False\n")
    written(lib / "seeks.py", "try:\n  import sought_app\nexcept ImportError: sought_app = None\n")
    names = "settings_app,package_app,open_app.part,seeks,random,decimal,logging.handlers"
    images.built("--preload", names)
    return images


SHOW = "import sys, {0} as m; print(m.__name__, getattr(m, '__file__', None), hasattr(m, 'MINE'))"
PLACES = {
    "a module": ("settings_app", "settings_app.py"),
    "compiled": ("settings_app", "settings_app.pyc"),
    "a library": ("settings_app", "settings_app.abi3.so"),
    "a package": ("settings_app", "settings_app/__init__.py"),
    "a compiled package": ("settings_app", "settings_app/__init__.pyc"),
    "a package for a package": ("package_app", "package_app/__init__.py"),
    "a part of an open package": ("open_app.more", "open_app/more.py"),
    "what was sought in vain": ("seeks", "sought_app.py"),
    "a folder that was sought": ("sought_app", "sought_app/a.py"),
    "of the library": ("decimal", "decimal.py"),
    "of the library, for pasture": ("dataclasses", "dataclasses.py"),
    "of the library, which that imports": ("logging", "logging/__init__.py"),
}
OTHERS = {
    "a folder without a module": ("settings_app", "settings_app/data"),
    "text": ("settings_app", "settings_app.txt"),
    "text in a folder": ("settings_app", "settings_app/__init__.txt"),
    "a file without an end": ("settings_app", "settings_app"),
    "another name": ("settings_app", "settings_application.py"),
    "a beginning": ("settings_app", "settings.py"),
    "built in": ("sys", "sys.py"),
    "frozen": ("os", "os.py"),
    "loaded at the start": ("codecs", "codecs.py"),
}


def both(images: Images, folder: Path, source: str, way: str) -> tuple[Ended, Ended, str]:
    """A program in a folder, by the stub and by the interpreter, and how it was started."""
    program = written(folder / "program.py", source)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link.py").symlink_to(program)
    words, place = {
        "file": ([str(program)], folder / "elsewhere"),
        "link": (["link.py"], folder / "elsewhere"),
        "command": (["-c", source], folder),
        "module": (["-m", "program"], folder),
        "input": (["-"], folder),
    }[way]
    options = {"cwd": place, "input": source.encode()}
    started, expected = images.run(*words, **options), images.python(*words, **options)
    return started, expected, images.why(*words, **options)


@pytest.mark.parametrize("way", ["file", "link", "command", "module", "input"])
def test_a_module_beside_the_program_is_the_one_that_it_gets(
    projects: Images, tmp_path: Path, way: str
) -> None:
    written(tmp_path / "settings_app.py")
    started, expected, why = both(projects, tmp_path, SHOW.format("settings_app"), way)
    assert started == expected
    assert f"settings_app {tmp_path}/settings_app.py True\n" == started.out.decode()
    assert why.endswith("that the image has another one of: settings_app.py")


@pytest.mark.parametrize("place", [*PLACES, *OTHERS])
def test_whatever_python_would_import_from_there_counts_and_nothing_else(
    projects: Images, tmp_path: Path, place: str
) -> None:
    name, path = {**PLACES, **OTHERS}[place]
    made = written(tmp_path / path)  # a library that is none: the interpreter says so
    if made.suffix == ".pyc":
        source = written(made.with_suffix(".py"))
        py_compile.compile(str(source), str(made))
        source.unlink()
    (tmp_path / "package_app").mkdir(exist_ok=True)
    (tmp_path / "random").symlink_to("nothing")
    started, expected, why = both(projects, tmp_path, SHOW.format(name), "file")
    assert started == expected
    said = "that the image has another one of" in why
    assert (said, why == "") == (place in PLACES, place in OTHERS)


def test_modules_that_the_image_has_from_that_folder_are_no_others(projects: Images) -> None:
    source = SHOW.format("settings_app")
    lib = projects.lib
    written(lib / "program.py", source)
    for words in (["program.py"], ["../lib/program.py"], ["-c", source]):
        assert projects.served(*words, cwd=lib) == projects.python(*words, cwd=lib)


def test_a_folder_of_the_same_number_in_another_file_system_is_another_one(
    own_images: Images,
) -> None:
    """Both are the first one there."""
    ours, own = own_images.lib, own_images.folder / "own"
    own.mkdir()
    script = f"""
    mount -t tmpfs none {ours} && mount -t tmpfs none {own} || exit 99
    echo "MINE = False" > {ours}/settings_app.py; echo "MINE = True" > {own}/settings_app.py
    {BIN}/python -m pasture image build -o {own_images.image} --preload settings_app >&2 || exit
    cd {own}
    for program in python pasture-python
    do {BIN}/$program -c "import os, settings_app as s; print(s.MINE, os.stat('.').st_ino)"
    done"""
    ended = own_images.in_mounts(script)
    assert (ended.status, ended.out) == (0, b"True 1\n" * 2), ended.err


@pytest.mark.parametrize("options", ["-P", "-I"])
def test_without_that_folder_on_the_path_nothing_is_compared(
    own_images: Images, tmp_path: Path, options: str
) -> None:
    written(tmp_path / "beside" / "random.py")
    program = written(tmp_path / "beside" / "program.py", SHOW.format("random"))
    own_images.built("--preload", "random", f"--options={options}")
    words = [options, str(program)]
    assert own_images.served(*words) == own_images.python(*words)
    assert f"without the option: {options}" in own_images.why(str(program))


def test_a_folder_that_is_gone_is_no_obstacle(projects: Images, tmp_path: Path) -> None:
    source = 'cd "$1" && rmdir "$1" && exec "$0" -c "import random; print(1)"'
    (tmp_path / "gone").mkdir()
    words = ["-c", source, str(STUB), str(tmp_path / "gone")]
    ended = projects.run(*words, program=Path("/bin/sh"))
    assert (ended.status, ended.out) == (0, b"1\n")


def test_an_archive_is_run_by_the_interpreter_and_a_long_program_is_none(
    projects: Images, tmp_path: Path
) -> None:
    program = tmp_path / "app.pyz"
    with zipfile.ZipFile(program, "w") as archive:
        archive.writestr("__main__.py", SHOW.format("settings_app"))
        archive.writestr("settings_app.py", MINE)
        archive.comment = b"with a comment " * 99
    assert projects.run(str(program)) == projects.python(str(program))
    assert projects.why(str(program)).endswith("the program is an archive")
    long = str(written(tmp_path / "long.py", f"{'#' * 100_000}\nprint(1)\n"))
    assert projects.served(long).out == b"1\n"
