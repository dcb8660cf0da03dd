"""A program's folder comes first on the search path: its modules are used, not an image's."""

from __future__ import annotations

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


def compiled(path: Path) -> None:
    source = written(path.with_suffix(".py"))
    import py_compile

    py_compile.compile(str(source), str(path))
    source.unlink()


def library(path: Path) -> None:
    """Not a library: the interpreter says so, if it comes to that."""
    written(path, "no library")


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
    "a module": ("settings_app", lambda f: written(f / "settings_app.py")),
    "compiled": ("settings_app", lambda f: compiled(f / "settings_app.pyc")),
    "a library": ("settings_app", lambda f: library(f / "settings_app.abi3.so")),
    "a package": ("settings_app", lambda f: written(f / "settings_app" / "__init__.py")),
    "a compiled package": ("settings_app", lambda f: compiled(f / "settings_app/__init__.pyc")),
    "a package for a package": ("package_app", lambda f: written(f / "package_app/__init__.py")),
    "a part of an open package": ("open_app.more", lambda f: written(f / "open_app" / "more.py")),
    "what was sought in vain": ("seeks", lambda f: written(f / "sought_app.py")),
    "a folder that was sought": ("sought_app", lambda f: written(f / "sought_app" / "a.py")),
    "of the library": ("random", lambda f: written(f / "random.py")),
    "of the library, for pasture": ("dataclasses", lambda f: written(f / "dataclasses.py")),
}
OTHERS = {
    "nothing": ("settings_app", lambda f: None),
    "a folder without a module": ("settings_app", lambda f: written(f / "settings_app" / "data")),
    "text": ("settings_app", lambda f: written(f / "settings_app.txt")),
    "text in a folder": ("settings_app", lambda f: written(f / "settings_app" / "__init__.txt")),
    "a file without an end": ("settings_app", lambda f: written(f / "settings_app")),
    "a link to nothing": ("settings_app", lambda f: (f / "settings_app").symlink_to("nothing")),
    "another name": ("settings_app", lambda f: written(f / "settings_application.py")),
    "a beginning": ("settings_app", lambda f: written(f / "settings.py")),
    "built in": ("sys", lambda f: written(f / "sys.py")),
    "frozen": ("os", lambda f: written(f / "os.py")),
    "loaded at the start": ("codecs", lambda f: written(f / "codecs.py")),
}


STANDARD = (
    "queue types json socket random copy enum typing logging string token struct abc decimal"
    " numbers calendar platform signal"
)


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


@pytest.mark.parametrize("place", PLACES)
def test_whatever_python_would_import_from_there_counts(
    projects: Images, tmp_path: Path, place: str
) -> None:
    name, make = PLACES[place]
    make(tmp_path)
    started, expected, why = both(projects, tmp_path, SHOW.format(name), "file")
    assert started == expected
    assert "that the image has another one of" in why


@pytest.mark.parametrize("place", OTHERS)
def test_nothing_else_counts(projects: Images, tmp_path: Path, place: str) -> None:
    name, make = OTHERS[place]
    make(tmp_path)
    started, expected, why = both(projects, tmp_path, SHOW.format(name), "file")
    assert started == expected
    assert why == ""


def test_modules_that_the_image_has_from_that_folder_are_no_others(projects: Images) -> None:
    source = SHOW.format("settings_app")
    lib = projects.lib
    for words, place in (
        (["program.py"], lib),
        (["../lib/program.py"], lib),
        (["-c", source], lib),
    ):
        written(lib / "program.py", source)
        assert projects.run(*words, cwd=place) == projects.python(*words, cwd=place)
        assert projects.why(*words, cwd=place) == ""


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


def test_a_long_program_is_no_archive(projects: Images, tmp_path: Path) -> None:
    program = written(tmp_path / "long.py", f"{'#' * 100_000}\nprint(1)\n")
    assert projects.why(str(program)) == ""
    assert projects.run(str(program)).out == b"1\n"


def test_a_program_that_is_an_archive_is_run_by_the_interpreter(
    projects: Images, tmp_path: Path
) -> None:
    program = tmp_path / "app.pyz"
    with zipfile.ZipFile(program, "w") as archive:
        archive.writestr("__main__.py", SHOW.format("settings_app"))
        archive.writestr("settings_app.py", MINE)
        archive.comment = b"with a comment " * 99
    assert projects.run(str(program)) == projects.python(str(program))
    assert projects.why(str(program)).endswith("the program is an archive")


@pytest.mark.parametrize("options", ["-P", "-I"])
def test_without_that_folder_on_the_path_nothing_is_compared(
    own_images: Images, tmp_path: Path, options: str
) -> None:
    written(tmp_path / "beside" / "random.py")
    program = written(tmp_path / "beside" / "program.py", SHOW.format("random"))
    own_images.built("--preload", "random", f"--options={options}")
    words = [options, str(program)]
    assert own_images.run(*words) == own_images.python(*words)
    assert own_images.why(*words) == ""


def test_no_standard_module_takes_the_place_of_one_of_the_programs(
    projects: Images, tmp_path: Path
) -> None:
    started, expected = [], []
    source = "import sys\nprint([n for n in sys.argv[1:] if hasattr(__import__(n), 'MINE')])"
    for name in STANDARD.split():
        folder = tmp_path / name
        written(folder / f"{name}.py")
        program = written(folder / "program.py", source)
        started.append(projects.run(str(program), name))
        expected.append(projects.python(str(program), name))
    assert [one.out for one in started] == [one.out for one in expected]
    assert any(b"[]" not in one.out for one in started)


def test_a_folder_that_is_gone_is_no_obstacle(projects: Images, tmp_path: Path) -> None:
    source = 'cd "$1" && rmdir "$1" && exec "$0" -c "import random; print(1)"'
    (tmp_path / "gone").mkdir()
    words = ["-c", source, str(STUB), str(tmp_path / "gone")]
    ended = projects.run(*words, program=Path("/bin/sh"))
    assert (ended.status, ended.out) == (0, b"1\n")
