"""What an image states of its load is compared at each start, and what cannot be is refused."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from images import STUB, TIMEOUT_S, Images

FOLDER = """
import os
def above(name):
    folder = os.getcwd()
    while True:
        if os.path.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
        if folder == "/":
            return None
        folder = os.path.dirname(folder)
FOUND = above(".settings-of-a-project")
RELATIVE = os.path.exists("settings-by-a-relative-path")
"""


@pytest.fixture(scope="module")
def looking(tmp_path_factory: pytest.TempPathFactory) -> Images:
    images = Images(tmp_path_factory.mktemp("looking"))
    images.module("looks", FOLDER)
    images.built("--preload", "looks")
    return images


@pytest.mark.parametrize("place", ["none", "here", "above", "relative"])
def test_what_modules_look_for_from_the_working_directory_upward_is_looked_for_again(
    looking: Images, tmp_path: Path, place: str
) -> None:
    (folder := tmp_path / "one" / "two").mkdir(parents=True)
    name = "settings-by-a-relative-path" if place == "relative" else ".settings-of-a-project"
    if place != "none":
        ((tmp_path if place == "above" else folder) / name).touch()
    words = ("-c", "import looks; print(looks.FOUND, looks.RELATIVE)")
    assert looking.run(*words, cwd=folder).out == looking.python(*words, cwd=folder).out
    assert (looking.why(cwd=folder) == "") is (place == "none")


def test_the_working_directory_that_a_module_has_a_name_for_is_the_programs(
    own_images: Images, tmp_path: Path
) -> None:
    own_images.module("cwd", "import os; HERE = os.getcwd()")
    own_images.built("--preload", "cwd")
    words = ("-c", "import cwd; print(cwd.HERE)")
    assert own_images.why(*words, cwd=tmp_path) == ""
    assert own_images.run(*words, cwd=tmp_path).out == f"{tmp_path}\n".encode()


CLOSED = {
    "folder": "import os, pathlib; PATH = pathlib.Path.cwd()",
    "a folder that is listed": "import os; NAMES = os.listdir('.')",
    "a folder of a program": "import subprocess; subprocess.run(['/bin/pwd', '-P'], stdout=-1)",
    "network": "import socket; SEEN = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()",
    "a connection": "import socket\n"
    "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n    s.connect(('127.0.0.1', 9))",
    "interfaces": "import socket; NAMES = socket.if_nameindex()",
    "filesystem": "import os; FREE = os.statvfs('/').f_bavail",
    "memory": "import os; BYTES = os.sysconf('SC_AVPHYS_PAGES')",
    "kernel": "FREE = open('/proc/meminfo').read()",
    "process": "import os; MASK = os.umask(0); os.umask(MASK)",
}
KINDS = {"a folder that is listed": "folder", "a folder of a program": "folder"}
KINDS |= {"a connection": "network", "interfaces": "network"}


@pytest.mark.parametrize("name", CLOSED)
def test_what_no_start_can_compare_is_refused_by_name_and_allowed_by_it(
    own_images: Images, name: str
) -> None:
    own_images.module("asks", CLOSED[name])
    done = own_images.build("--preload", "asks")
    kind = KINDS.get(name, name)
    assert (done.returncode != 0, f"--allow {kind}" in done.stderr) == (True, True), done.stderr
    done = own_images.build("--preload", "asks", "--allow", kind)
    assert done.returncode == 0, done.stderr
    assert own_images.why() == ""
    shown = own_images.pasture("show", str(own_images.image)).stdout
    assert any(word in shown for word in ("asks", "/proc/meminfo")), shown


ASKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "limit": (
        "import resource; FILES = resource.getrlimit(resource.RLIMIT_NOFILE)",
        ("sh", "-c", 'ulimit -n 1500; exec "$@"', "sh"),
    ),
    "user": (
        "import os; USER = os.getuid()",
        ("setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
         "--ambient-caps=+dac_read_search"),
    ),
    "groups": ("import os; GROUPS = os.getgroups()", ("setpriv", "--groups=7")),
    "affinity": ("import os; CPUS = os.sched_getaffinity(0)", ("taskset", "-c", "0")),
    "host": ("import socket; HOST = socket.gethostname()",
             ("unshare", "-u", "sh", "-c", 'hostname other; exec "$@"', "sh")),
    "bind6": (
        "import socket\ntry:\n    with socket.socket(socket.AF_INET6) as s:\n"
        "        s.bind(('::1', 0))\n    HAS = True\nexcept OSError:\n    HAS = False",
        ("unshare", "-n"),
    ),
}  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="another user, host or network is root's to choose")
@pytest.mark.parametrize("name", ASKED)
def test_what_modules_ask_of_their_process_and_machine_is_asked_again(
    own_images: Images, name: str
) -> None:
    text, prefix = ASKED[name]
    if name == "affinity" and os.cpu_count() == 1:
        pytest.skip("there is one processor")
    own_images.module("asks", text)
    own_images.built("--preload", "asks")
    own_images.image.chmod(0o644)
    assert own_images.why() == ""
    ended = subprocess.run(
        [*prefix, STUB, "-c", "pass"],
        env={**own_images.variables, "PASTURE_IMAGE_VERBOSE": "1"},
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    said = ended.stderr.splitlines()
    is_same = name == "bind6" and "asked" not in ended.stderr  # a machine without IPv6
    assert is_same or f"the answer is another one: {name}" in said[-1], ended.stderr


def test_a_module_that_asks_for_the_host_and_keeps_no_name_is_for_any(own_images: Images) -> None:
    own_images.module("asks", "import os; SYSTEM = os.uname().sysname")
    own_images.built("--preload", "asks")
    notes = own_images.document()["notes"]
    assert not [one for one in notes if one["code"] == "host"]


def test_an_interrupt_ends_a_program_though_the_build_ignored_it(own_images: Images) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    words = [sys.executable, "-m", "pasture", "image", "build", "-o", own_images.image]
    subprocess.run([*words, "--preload", "json"], env=own_images.environ, preexec_fn=ignore,
                   check=True, capture_output=True)  # fmt: skip
    text = "import signal, time; print(signal.getsignal(1), flush=True); time.sleep(60)"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        with own_images.popen(["-c", text], stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"0\n"
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == -number


# -- which file is the same


def _edited(path: Path) -> None:
    """Another content of the same size, at the same time."""
    before = path.stat()
    path.write_text("VALUE = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_text("VALUE = 3\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


SAME: dict[str, Callable[[Path], object]] = {
    "touched": lambda path: path.touch(),
    "written again": lambda path: path.write_text(path.read_text()),
    "linked": lambda path: path.with_name("again").hardlink_to(path),
    "a copy in its place": lambda path: _copy(path).replace(path),
}
OTHER: dict[str, Callable[[Path], object]] = {
    "edited": _edited,
    "replaced": _replaced,
    "another mode": lambda path: path.chmod(0o600),
}


def _copy(path: Path) -> Path:
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.chmod(path.stat().st_mode & 0o7777)
    return other


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_a_file_is_the_same_by_its_content_whatever_its_times_say(
    own_images: Images, name: str
) -> None:
    path = own_images.module("settings", "VALUE = 1\n")
    path.chmod(0o644)
    own_images.built("--preload", "settings")
    assert own_images.why() == ""
    (SAME | OTHER)[name](path)
    assert (own_images.why() == "") is (name in SAME)
    words = ("-B", "-c", "import settings; print(settings.VALUE)")
    if name != "edited":  # python itself takes the bytecode of then
        assert own_images.run(*words).out == own_images.python(*words).out


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up that it may read all")
def test_a_file_that_the_program_may_not_read_is_another_one(own_images: Images) -> None:
    path = own_images.folder / "secret"
    path.write_text("text")
    path.chmod(0)
    own_images.module("reads", f"TEXT = open({str(path)!r}).read()")
    own_images.built("--preload", "reads")
    assert own_images.why() == ""
    words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", STUB, "-c", "pass"]
    given = {**own_images.variables, "PASTURE_IMAGE_VERBOSE": "1"}
    ended = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    assert f"has changed since the image was made: {path}" in ended.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one kind of machine is enough")
def test_an_edit_of_the_same_size_at_the_same_time_is_noticed_before_it_is_compiled(
    own_images: Images,
) -> None:
    own_images.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    path = own_images.module("settings", "VALUE = 1\n")
    own_images.built("--preload", "settings")
    _edited(path)
    words = ("-c", "import settings; print(settings.VALUE)")
    assert own_images.run(*words).out == own_images.python(*words).out == b"2\n"


def test_a_warning_that_an_import_shows_the_program_is_output(own_images: Images) -> None:
    text = "import warnings; warnings.warn('old', DeprecationWarning, stacklevel=2)"
    own_images.module("old", text)
    done = own_images.build("--preload", "old")
    assert (done.returncode != 0, "--allow output" in done.stderr) == (True, True), done.stderr


def test_a_time_zone_that_a_module_has_asked_for_counts(own_images: Images) -> None:
    own_images.module("zone", "import time; HOUR = time.localtime(0).tm_hour")
    own_images.built("--preload", "zone")
    assert own_images.why() == ""
    assert own_images.why(environ={"TZ": "Asia/Tokyo"}).endswith(": TZ")


def test_a_new_part_of_a_namespace_is_noticed(own_images: Images) -> None:
    (own_images.lib / "space").mkdir()
    (own_images.lib / "space" / "one.py").write_text("")
    other = own_images.folder / "other"
    other.mkdir()
    own_images.environ["PYTHONPATH"] += f":{other}"
    own_images.built("--preload", "space.one")
    assert own_images.why() == ""
    (other / "space").mkdir()
    (other / "space" / "two.py").write_text("")
    assert str(other) in own_images.why()
