"""What modules make of a variable that names a folder: each program's own, or `python` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.images import Images

KEEPS = """
import os, pathlib
HOME = os.path.expanduser("~")
path = pathlib.Path.home() / "x"
names = [os.path.join(HOME, ".conf"), 5]
def default(first=1, path=HOME + "/cache"): return path
def named(*, path=f"file://{HOME}/n"): return path
class Class:
    held = HOME + ":" + HOME + "/d"
    __slots__ = ("own", "__dict__")
    def __init__(self): self.own, self.more = os.path.expanduser("~/e"), HOME
one = Class()
def closed():
    held = os.path.expanduser("~/h")
    return lambda: held
inner = closed()
class Proxy: __class__ = property(lambda self: 1 / 0)
proxy = Proxy()
has = os.path.exists(HOME + "/.conf")
def show():
    return HOME, str(path), names, default(), named(), Class.held, one.own, one.more, inner(), has
"""
SHOWS = "import keeps; print(keeps.show())"


def test_what_follows_home_is_each_programs_own(own_images: Images, tmp_path: Path) -> None:
    own_images.module("keeps", KEEPS)
    own_images.built("--preload", "keeps")
    homes = [tmp_path / "other", tmp_path / "has", Path("/nonexistent")]
    for home in homes[:2]:
        home.mkdir()
    (homes[1] / ".conf").touch()
    is_there = f"{homes[1]}/.conf is there, and was not for the build"
    for home, why in zip(homes, ("", is_there, ""), strict=True):
        environ = {"HOME": str(home)}
        assert own_images.why("-c", SHOWS, environ=environ).endswith(why), home
        assert own_images.run("-c", SHOWS, environ=environ) == own_images.python(
            "-c", SHOWS, environ=environ
        )
    for home in ("/", f"{tmp_path}/", "relative", "", f"{tmp_path}/a b", str(own_images.lib)):
        environ = {"HOME": str(home)}
        assert "HOME names no folder" in own_images.why("-c", SHOWS, environ=environ), home
        assert own_images.run("-c", SHOWS, environ=environ) == own_images.python(
            "-c", SHOWS, environ=environ
        )


SETTINGS = """
import os
home = os.path.expanduser("~")
class Settings: home = home
settings = Settings
"""


def test_a_package_may_have_something_else_by_the_name_of_its_module(own_images: Images) -> None:
    folder = own_images.lib / "both"
    folder.mkdir()
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "__init__.py").write_text("from .settings import settings\n")
    own_images.built("--preload", "both")
    program = "import both, sys; print(both.settings.home, sys.modules['both.settings'].home)"
    environ = {"HOME": "/tmp/nonexistent"}
    assert own_images.why("-c", program, environ=environ) == ""
    assert own_images.run("-c", program, environ=environ) == own_images.python(
        "-c", program, environ=environ
    )


DECIDES = {
    "branch": "FOUND = H == os.environ['HOME_OF_BUILD']",
    "length": "FOUND = len(H)",
    "component": "FOUND = H.split('/')[1]",
    "tuple": "FOUND = (H, 1)",
    "tuple that is a default": "def f(a): return a\nFOUND = f.__defaults__ = (H,)",
    "key": "FOUND = {H: 1}",
    "bytes": "FOUND = os.fsencode(H)",
    "pattern": "import re; FOUND = re.compile(H)",
    "cached": "import functools; FOUND = functools.lru_cache(str.upper); FOUND(H)",
    "cached tuple": "import functools, gc; FOUND = functools.cache(lambda: (H, 1)); FOUND()\n"
    "gc.collect()",
    "cached component": "import functools; (F := functools.cache(lambda: H.split('/')[-1]))()",
    "escaped": "import re; FOUND = re.compile(re.escape(H)).match; re.purge()",
    "bytes in C": "import functools; FOUND = functools.cache(lambda: H.encode()); FOUND()",
    "hidden slot": "class A: __slots__ = 'own',\nclass B(A): __slots__ = 'own',\nFOUND = B()\n"
    "FOUND.own = H\nA.own.__set__(FOUND, H)",
    "exit by name": "import atexit; atexit.register(print, end=os.path.expanduser('~/x'))",
    "exit": "import atexit; atexit.register(print, os.path.expanduser('~/x'))",
    "variable of a component": "os.environ['MINE'] = os.path.basename(H)",
    "generator": "def one():\n    h = H; yield 1; yield h\nFOUND = one(); next(FOUND)",
    "search path": "import sys; sys.path.append(H + '/lib')",
    "variable": "os.environ['MINE'] = H + '/mine'",
    "directory": "os.chdir(H)",
    "written": "open(H + '/log', 'a').write('x')",
    "there": "FOUND = os.path.exists(H + '/app.txt')",
}


@pytest.mark.parametrize("way", DECIDES)
def test_python_runs_a_program_where_home_decides_more(own_images: Images, way: str) -> None:
    own_images.module("decides", f"import os\nH = os.path.expanduser('~')\n{DECIDES[way]}\n")
    (own_images.folder / "app.txt").touch()
    own_images.environ["HOME_OF_BUILD"] = str(own_images.folder)
    own_images.built("--preload", "decides", "--env", "HOME_OF_BUILD")
    assert own_images.why("-c", "pass") == ""
    assert own_images.why("-c", "pass", environ={"HOME": "/nonexistent"}).endswith(": HOME")


COMPARES = """
import fnmatch, os
HOME = os.environ["HOME"]
BELOW, ONE = HOME.startswith("/nowhere/"), os.path.expanduser("~/x") == "/own/folder/x"
def kind(home):
    return f"/holds/{os.path.basename(home)}/x" == os.path.join(home, "x")
class Class: found = fnmatch.fnmatch(HOME, "/in/*"), HOME == "/put/%s" % HOME[-1]
FOUND = BELOW, ONE, kind(HOME), Class.found, eval("HOME == '/evaluated/a'")
def not_run():
    return HOME == "/not/run"
"""


def test_a_folder_that_code_may_compare_with_another_is_for_python(own_images: Images) -> None:
    own_images.module("compares", COMPARES)
    own_images.environ["HOME"] = "/srv"  # not in /tmp, which code has as well
    own_images.built("--preload", "compares")
    program = "import compares; print(compares.HOME, compares.FOUND)"
    homes = {
        "/nowhere/a": "/nowhere/",
        "/own/folder": "/own/folder/x",
        "/own": "/own/folder/x",
        "/holds/a": "/holds/",
        "/in/b": "/in/",
        "/put/b": "/put/",
        "/evaluated/a": "/evaluated/a",
        "/zq": "",
        "/not/run": "",
    }
    for home, path in homes.items():
        environ = {"HOME": home}
        why = own_images.why("-c", program, environ=environ)
        assert (f"compared with {path}," in why) if path else (why == ""), (home, why)
        assert own_images.run("-c", program, environ=environ) == own_images.python(
            "-c", program, environ=environ
        )


GARBAGE = """
import os
H = os.path.expanduser("~")
class Holder:
    def __init__(self): self.own, self.text = self, "x"
names = vars(Holder())
"""


def test_garbage_decides_nothing(own_images: Images) -> None:
    own_images.module("garbage", GARBAGE)
    own_images.built("--preload", "garbage,asyncio")
    assert own_images.why("-c", "pass", environ={"HOME": "/nonexistent"}) == ""


MAKES = """
import atexit, os, shutil, tempfile
class Path(str): pass
folder = Path(tempfile.mkdtemp(prefix="made-"))
os.chmod(folder, 0o750)
atexit.register(shutil.rmtree, folder)
"""
USES = """
import sys, makes, os
if len(sys.argv) > 1: print(end="." , flush=True); sys.stdin.read()
with open(f"{makes.folder}/a", "w") as file: print(file.write("b"))
print(oct(os.stat(makes.folder).st_mode))
"""


def test_one_program_at_a_time_has_the_folder_that_a_module_has_made(own_images: Images) -> None:
    temporary = own_images.folder / "temporary"
    temporary.mkdir()
    environ = {"TMPDIR": str(temporary)}
    own_images.module("makes", MAKES)
    done = own_images.build("--preload", "makes", environ=environ)
    assert "makes.folder keeps" in done.stdout
    assert list(temporary.iterdir()) == []
    for _ in range(2):
        assert own_images.why("-c", USES, environ=environ) == ""
        by_image = own_images.run("-c", USES, environ=environ)
        assert by_image == own_images.python("-c", USES, environ=environ)
        assert list(temporary.iterdir()) == []
    options = {"stdin": -1, "stdout": -1, "env": {**own_images.variables, **environ}}
    with own_images.popen(["-c", USES, "wait"], **options) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.read(1) == b"."
        (folder,) = temporary.iterdir()
        assert "which another program may have" in own_images.why("-c", USES, environ=environ)
        assert own_images.run("-c", USES, environ=environ) == by_image
        assert list(temporary.iterdir()) == [folder]
        assert other.communicate()[0] == by_image.out
    assert list(temporary.iterdir()) == []


def test_a_file_that_a_module_makes_and_keeps_is_no_programs(own_images: Images) -> None:
    own_images.module("makes", "import tempfile\nheld = {tempfile.mkstemp()[1]: 1}\n")
    done = own_images.build("--preload", "makes")
    assert done.returncode == 17
    assert "makes.held keeps" in done.stderr and "cannot share it" in done.stderr
