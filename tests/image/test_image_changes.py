"""A program never gets yesterday's code, whatever way it was exchanged; nothing else counts."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from images import BIN, Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

PROGRAM = "import changing; print(changing.VALUE)"


def release(folder: Path, value: int) -> Path:
    """A folder with a module; all have the same size, and no two the same time."""
    folder.mkdir(parents=True)
    path = folder / "changing.py"
    path.write_text(f"VALUE = {value}\n")
    os.utime(path, (1_700_000_000 + value,) * 2)
    return path


def archive(path: Path, value: int) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("changing.py", f"VALUE = {value}\n")


def flip(link: Path, to: Path) -> None:
    new = link.with_name("new")
    new.symlink_to(to)
    new.replace(link)


def a_flipped_link(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / "releases" / str(value), value)
    link = folder / "current"
    link.symlink_to(folder / "releases" / "1")
    return link, lambda: flip(link, folder / "releases" / "2")


def a_flipped_link_above(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / "releases" / str(value) / "lib", value)
    link = folder / "current"
    link.symlink_to("releases/1")
    return link / "lib", lambda: flip(link, Path("releases/2"))


def a_flipped_link_to_a_file(folder: Path) -> tuple[Path, Callable[[], None]]:
    paths = [release(folder / str(value), value) for value in (1, 2)]
    lib = folder / "modules"
    lib.mkdir()
    (lib / "changing.py").symlink_to(paths[0])
    return lib, lambda: flip(lib / "changing.py", paths[1])


def a_renamed_folder_above(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / str(value) / "app" / "lib", value)

    def rename() -> None:
        (folder / "1").rename(folder / "old")
        (folder / "2").rename(folder / "1")

    return folder / "1" / "app" / "lib", rename


def a_rewritten_archive(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = folder / "lib.zip"
    archive(path, 1)
    return path, lambda: archive(path, 2)


def another_archive_in_its_place(folder: Path) -> tuple[Path, Callable[[], None]]:
    path, other = folder / "lib.zip", folder / "new.zip"
    archive(path, 1)
    archive(other, 2)
    return path, lambda: other.replace(path) and None


def writing_through_a_mapping(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "modules", 1)

    def write() -> None:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = b"VALUE = 2\n"
            mapped.flush()

    return path.parent, write


def writing_by_another_name(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "modules", 1)
    other = folder / "other.py"

    def write() -> None:
        other.hardlink_to(path)
        other.write_text("VALUE = 2\n")

    return path.parent, write


def a_package_before_a_module(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib = release(folder / "modules", 1).parent
    (lib / "changing").mkdir()
    (lib / "changing" / "notes.txt").write_text("no package so far")

    return lib, lambda: (lib / "changing" / "__init__.py").write_text("VALUE = 2\n") and None


def a_flipped_link_to_a_longer_name(folder: Path) -> tuple[Path, Callable[[], None]]:
    release(folder / "old", 1)
    release(folder / "newer", 2)
    link = folder / "current"
    link.symlink_to("old")
    return link, lambda: flip(link, Path("newer"))


def a_folder_in_place_of_a_link(folder: Path) -> tuple[Path, Callable[[], None]]:
    release(folder / "old", 1)
    link = folder / "current"
    link.symlink_to("old")

    def change() -> None:
        link.unlink()
        release(link, 2)

    return link, change


def looks(folder: Path, test: str) -> Path:
    """A module that is 1 where a test holds while it loads, and 2 where not."""
    lib = release(folder / "modules", 1).parent
    text = (
        f"import importlib.util, os\ntry: VALUE = 1 if {test} else 2\nexcept OSError: VALUE = 2\n"
    )
    (lib / "changing.py").write_text(text)
    return lib


def a_module_that_was_found_and_not_loaded(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib = looks(folder, "importlib.util.find_spec('optional')")
    (lib / "optional.py").write_text("")
    return lib, (lib / "optional.py").unlink


def a_file_in_place_of_a_package_of_folders(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib = looks(folder, "importlib.util.find_spec('parts')")
    (lib / "parts").mkdir()

    def change() -> None:
        (lib / "parts").rmdir()
        (lib / "parts").write_text("no folder")

    return lib, change


def a_listed_folder_that_is_gone(folder: Path) -> tuple[Path, Callable[[], None]]:
    data = folder / "data"
    data.mkdir()
    return looks(folder, f"not os.listdir({str(data)!r})"), data.rmdir


def a_file_in_place_of_a_listed_folder(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib, remove = a_listed_folder_that_is_gone(folder)

    def change() -> None:
        remove()
        (folder / "data").write_text("no folder")

    return lib, change


WAYS = (
    *(a_flipped_link, a_flipped_link_above, a_flipped_link_to_a_file, a_renamed_folder_above),
    *(a_rewritten_archive, another_archive_in_its_place, writing_through_a_mapping),
    *(writing_by_another_name, a_package_before_a_module, a_flipped_link_to_a_longer_name),
    *(a_folder_in_place_of_a_link, a_module_that_was_found_and_not_loaded),
    *(a_file_in_place_of_a_package_of_folders, a_listed_folder_that_is_gone),
    a_file_in_place_of_a_listed_folder,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_program_gets_the_code_that_is_there(
    own_images: Images, tmp_path: Path, way: Callable[[Path], tuple[Path, Callable[[], None]]]
) -> None:
    folder, change = way(tmp_path)
    own_images.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    own_images.built("--preload", "changing")
    assert own_images.why("-c", PROGRAM) == ""
    assert own_images.run("-c", PROGRAM).out == b"1\n"
    change()
    assert own_images.python("-c", PROGRAM).out == b"2\n"
    assert own_images.run("-c", PROGRAM).out == b"2\n"
    own_images.built("--preload", "changing")
    assert own_images.why("-c", PROGRAM) == ""
    assert own_images.run("-c", PROGRAM).out == b"2\n"


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


LOOKS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "an entry point": (
        "from importlib.metadata import entry_points\nVALUE = len(entry_points(group='looks'))",
        lambda here: write(here / "lib/new-1.dist-info/entry_points.txt", "[looks]\na = json\n"),
        "lib",
    ),
    "a listing": ("VALUE = sorted(os.listdir(HERE))", lambda here: write(here / "b.conf"), ""),
    "a search for plug-ins": (
        "import pkgutil, plugins\nVALUE = [m.name for m in pkgutil.iter_modules(plugins.__path__)]",
        lambda here: write(here / "lib/plugins/new.py"),
        "lib/plugins",
    ),
    "a module that was not there": (
        "try: from plugins import fast as VALUE\nexcept ImportError: VALUE = None",
        lambda here: write(here / "lib/plugins/fast.py"),
        "lib/plugins",
    ),
    "a file that was not there": (
        "VALUE = [os.path.exists(f'{HERE}/{name}') for name in ('a.conf', 'a/b/new.conf')]",
        lambda here: write(here / "a/b/new.conf"),
        "a/b/new.conf",
    ),
    "a conftest above": (
        "VALUE = [p.name for p in Path(HERE, 'x').parents if (p / 'conftest.py').is_file()]",
        lambda here: write(here / "conftest.py"),
        "conftest.py",
    ),
    "a file read in C": (
        "import ctypes\nC = ctypes.CDLL(None)\nC.fopen.restype = ctypes.c_void_p\n"
        "C.fgetc.argtypes = C.fclose.argtypes = [ctypes.c_void_p]\n"
        "FILE = C.fopen(f'{HERE}/a.conf'.encode(), b'r')\n"
        "VALUE = C.fgetc(FILE), C.fclose(FILE)",
        lambda here: write(here / "a.conf", "other"),
        "a.conf",
    ),
    "a file read by a child": (
        "import subprocess\nVALUE = subprocess.check_output(['cat', f'{HERE}/a.conf'], env={})",
        lambda here: write(here / "a.conf", "other"),
        "a.conf",
    ),
    "a configuration of OpenSSL": (
        "import ssl\nVALUE = ssl.create_default_context().minimum_version.name",
        lambda here: write(here / "openssl.cnf", OPENSSL.format("TLSv1.3")),
        "openssl.cnf",
    ),
    "a certificate": (
        "import ssl\nC = ssl.create_default_context()\nC.load_verify_locations(f'{HERE}/ca.pem')\n"
        "VALUE = any(c['subject'] == ((('commonName', 'a'),),) for c in C.get_ca_certs())",
        lambda here: write(here / "ca.pem", PEM.format(OTHER)),
        "ca.pem",
    ),
    "a translation": (
        "import gettext\nVALUE = gettext.find('app', f'{HERE}/locale', ['de'])",
        lambda here: write(here / "locale/de/LC_MESSAGES/app.mo"),
        "locale/de/LC_MESSAGES/app.mo",
    ),
    "a link to a release of the same size and time": (
        "VALUE = open(f'{HERE}/current/a.conf').read()",
        lambda here: flip(here / "current", here / "releases/2"),
        "current",
    ),
    "where a link leads": (
        "VALUE = os.readlink(f'{HERE}/current')",
        lambda here: flip(here / "current", here / "releases/2"),
        "current",
    ),
    "the size of a file": (
        "VALUE = os.stat(f'{HERE}/a.conf').st_size",
        lambda here: write(here / "a.conf", "larger"),
        "a.conf",
    ),
}
CERTIFICATE = (
    "MIIBLjCB4aADAgECAhRABvImgTZlGzakMNV2uxh383OXSjAFBgMrZXAwDDEKMAgGA1UEAwwBYTAg"
    "Fw0yNjExMjYyMTUwMTRaGA8yMTI2MTEwMjIxNTAxNFowDDEKMAgGA1UEAwwBYTAqMAUGAytlcAMh"
    "APNkn5iSL/zxwKMKBIB25q0NDysj1VbfrtmSaT+AUc/Po1MwUTAdBgNVHQ4EFgQUQOP9EF0GGi6N"
    "9FefWwrIh+yFLcUwHwYDVR0jBBgwFoAUQOP9EF0GGi6N9FefWwrIh+yFLcUwDwYDVR0TAQH/BAUw"
    "AwEB/zAFBgMrZXADQQCIMSEnjLoQqwKtUeYACGcBZvhLnCfZ0PzZKCsUTFzIdZCr3ixCDSzbC7A/"
    "NnMqkNL0vYgJHT9atiV+SYPveAYB"
)
OTHER = (
    "MIIBLjCB4aADAgECAhRisZ7NskxrUWfz437WinrUcEYw9zAFBgMrZXAwDDEKMAgGA1UEAwwBYjAg"
    "Fw0yNjExMjYyMTUwMTVaGA8yMTI2MTEwMjIxNTAxNVowDDEKMAgGA1UEAwwBYjAqMAUGAytlcAMh"
    "AMfkX116E1octrbhT54MjfyFZrU72a8gm3ae8eN1IUeSo1MwUTAdBgNVHQ4EFgQUhbd1x1dwTRfV"
    "pSPfMz0tswA6xWMwHwYDVR0jBBgwFoAUhbd1x1dwTRfVpSPfMz0tswA6xWMwDwYDVR0TAQH/BAUw"
    "AwEB/zAFBgMrZXADQQB1IkraYnV9NuUfLUMTHDdIzb8ms2Ld/8eJk/JrG57ZGzIESJ0yupY3H6Dk"
    "5GGFbd1U67e0NcEeUyeOOx89ho8O"
)
"""Of authorities that sign nothing."""
PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
OPENSSL = "openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nMinProtocol={}\n"
LOOK = "import looks; print(looks.VALUE)"


def a_folder_to_look_at(images: Images) -> Path:
    here = images.folder / "here"
    for value in (1, 2):
        write(here / f"releases/{value}/a.conf", str(value))
        os.utime(here / f"releases/{value}/a.conf", (0, 0))
    flip(here / "current", here / "releases/1")
    for name, text in {
        "a.conf": "found", "ca.pem": PEM.format(CERTIFICATE), "lib/plugins/__init__.py": "",
        "openssl.cnf": OPENSSL.format("TLSv1.2"),
    }.items():  # fmt: skip
        write(here / name, text)
    images.environ |= {"PYTHONPATH": f"{here}/lib", "OPENSSL_CONF": f"{here}/openssl.cnf"}
    return here


@pytest.mark.parametrize("name", LOOKS)
def test_what_a_load_has_looked_at_is_looked_at_again(own_images: Images, name: str) -> None:
    text, change, said = LOOKS[name]
    here = a_folder_to_look_at(own_images)
    text = f"import os\nfrom pathlib import Path\nHERE = {str(here)!r}\n{text}\n"
    write(here / "lib/looks.py", text)
    own_images.built("--preload", "looks")
    before = own_images.python("-c", LOOK)
    assert own_images.why("-c", LOOK) == ""
    assert before.status == 0 and own_images.run("-c", LOOK) == before
    for unrelated in ("lib/app.log", "releases/other", "lib/plugins/__pycache__/x"):
        write(here / unrelated)
    assert own_images.why("-c", LOOK) == ""
    change(here)
    after = own_images.python("-c", LOOK)
    why = own_images.why("-c", LOOK)
    assert why.endswith(f"a file has changed since the image was made: {here / said}")
    assert before != after == own_images.run("-c", LOOK)


IN_NAMESPACES = {
    "/etc/localtime": (
        "import time\nVALUE = time.strftime('%Z %z', time.localtime(0))",
        'mount --bind "$1" /etc/localtime',
    ),
    "/proc/sys/kernel/hostname": (
        "VALUE = open('/proc/sys/kernel/hostname').read()",
        "echo another > /proc/sys/kernel/hostname",
    ),
}


@pytest.mark.parametrize("path", IN_NAMESPACES)
def test_what_the_machine_says_is_looked_at_again(own_images: Images, path: str) -> None:
    zone = Path("/usr/share/zoneinfo/Asia/Tokyo")
    unshare = ["unshare", "--mount", "--uts"]
    if not (shutil.which("unshare") and zone.exists()) or subprocess.call([*unshare, "true"]):
        pytest.skip("needs the right to make namespaces")
    text, change = IN_NAMESPACES[path]
    own_images.module("looks", text)
    own_images.built("--preload", "looks")
    assert own_images.why("-c", LOOK) == ""
    words = ("-c", f'{change} && shift && exec "$@"', "sh", str(zone))
    found = {}
    for program in ("python", "pasture-python"):
        given = (*unshare[1:], "sh", *words, str(BIN / program), "-c", LOOK)
        found[program] = own_images.run(
            *given, program=Path("/usr/bin/unshare"), environ={"PASTURE_IMAGE_VERBOSE": "1"}
        )
    assert b"a file has changed since the image was made" in found["pasture-python"].err
    assert found["pasture-python"].out == found["python"].out != own_images.run("-c", LOOK).out


def test_what_modules_do_not_depend_on_may_change_beside_them(
    own_images: Images, tmp_path: Path
) -> None:
    lib = own_images.lib
    (lib / "app.py").write_text("VALUE = 1\n")
    (lib / "site").mkdir()
    own_images.environ["PYTHONPATH"] = str(lib)
    own_images.built("--preload", "app,json")
    for turn in range(20):
        with (lib / "app.log").open("a") as log:
            log.write("a line\n")
        for name in ("site.db", "site.db-journal", "json.tmp", "app.pid", "__pycache__/x.pyc"):
            path = lib / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(turn))
            path.unlink()
        assert own_images.why("-c", "import app") == ""


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(
    own_images: Images, tmp_path: Path
) -> None:
    """Half of it may be old: here the module is changed between its own import and the image."""
    lib = own_images.lib
    (lib / "changing.py").write_text("VALUE = 1\n")
    (lib / "slow.py").write_text(
        "import changing, pathlib\n"
        "path = pathlib.Path(changing.__file__)\n"
        "if changing.VALUE == 1: path.write_text('VALUE = 2\\n')\n"
    )
    own_images.environ |= {"PYTHONPATH": str(lib), "PYTHONDONTWRITEBYTECODE": "1"}
    own_images.built("--preload", "slow")
    source = f"import slow; {PROGRAM}"
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"2\n"
