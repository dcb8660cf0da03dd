"""What modules make of a variable that names a folder: each program's own, or `python` runs it."""

from __future__ import annotations

from tests.image.images import Images

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
