"""tools/interpreters: what it accepts, what it prefers, and what it says when it fails.

The host is a folder of small programs that stand for interpreters, uv and apt-get.
Unpacking for real needs a network; test_interpreters_unpacked.py looks at the result.
"""

import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FakePython = Callable[..., Path]


@pytest.fixture
def tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load_tool: Callable[[str], ModuleType]
) -> ModuleType:
    """The script as a module, on a host with an empty PATH, an empty cache and no uv."""
    module = load_tool("interpreters")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    return module


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def fake_python(tmp_path: Path) -> FakePython:
    """Makes a program that answers the probe like an interpreter of this version."""

    def make(version: str, path: Path | None = None, **facts: object) -> Path:
        parts = [int(part) for part in version.split(".")]
        answer = {
            "implementation": "cpython",
            "version": parts,
            "free_threaded": False,
            "headers": True,
            **facts,
        }
        path = path or tmp_path / "bin" / f"python{parts[0]}.{parts[1]}"
        return write_program(path, f"echo '{json.dumps(answer)}'")

    return make


def debian_python(tool: ModuleType, minor: str) -> Path:
    return Path(tool.CACHE / minor / "usr" / "bin" / f"python{minor}")


@pytest.mark.parametrize(
    ("version", "facts", "reason"),
    [
        ("3.13.1", {"implementation": "pypy"}, "is not CPython"),
        ("3.13.1", {"free_threaded": True}, "free-threaded"),
        ("3.14.0", {}, "3.14.0 to 3.14.4"),
        ("3.14.4", {}, "3.14.0 to 3.14.4"),
        ("3.13.1", {"headers": False}, "header files"),
    ],
)
def test_an_unfit_interpreter_is_refused_with_its_reason(
    tool: ModuleType,
    fake_python: FakePython,
    version: str,
    facts: dict[str, object],
    reason: str,
) -> None:
    found, why = tool.examine(fake_python(version, **facts), "path")
    assert found is None
    assert reason in why


def test_a_program_that_is_no_interpreter_does_not_start(tool: ModuleType, tmp_path: Path) -> None:
    shim = write_program(tmp_path / "bin" / "python3.13", "echo 'not installed' >&2; exit 127")
    assert tool.examine(shim, "path") == (None, "does not start")
    assert tool.examine(tmp_path / "nowhere", "path") == (None, "does not start")


def test_the_running_interpreter_is_known_by_its_version(tool: ModuleType) -> None:
    found, reason = tool.examine(Path(sys.executable), "path")
    assert reason == ""
    assert found.version == sys.version_info[:3]


def test_one_on_the_path_is_taken_before_the_unpacked_one(
    tool: ModuleType, fake_python: FakePython
) -> None:
    fake_python("3.13.9", debian_python(tool, "3.13"))
    on_path = fake_python("3.13.2")
    assert tool.obtain("3.13", []).path == on_path


def test_an_extra_calls_for_the_unpacked_one(
    tool: ModuleType, fake_python: FakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python("3.13.2")
    unpacked = fake_python("3.13.9", debian_python(tool, "3.13"))
    (tool.CACHE / "3.13" / "with-testsuite").touch()
    monkeypatch.setattr(tool, "require_debian_tools", lambda: None)
    monkeypatch.setattr(tool.DebianArchive, "refresh", lambda self: None)
    assert tool.obtain("3.13", ["testsuite"]).path == unpacked


def test_uv_is_asked_when_the_path_has_none(
    tool: ModuleType, fake_python: FakePython, tmp_path: Path
) -> None:
    managed = fake_python("3.14.6", tmp_path / "uv-python" / "python3.14")
    listing = json.dumps([{"path": str(managed)}])
    write_program(tmp_path / ".tools" / "bin" / "uv", f"echo '{listing}'")
    assert tool.obtain("3.14", []).source == "uv"


def test_the_best_runs_all_tests(tool: ModuleType, fake_python: FakePython) -> None:
    fake_python("3.12.4")
    fake_python("3.15.1")
    whole = fake_python("3.14.6")
    assert tool.best().path == whole


def test_it_is_unpacked_where_the_host_has_none(
    tool: ModuleType, fake_python: FakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python("3.15.1")
    whole = fake_python("3.14.6", debian_python(tool, "3.14"))
    monkeypatch.setattr(tool, "require_debian_tools", lambda: None)
    assert tool.best().path == whole


def test_the_best_is_else_the_newest_of_the_host(tool: ModuleType, fake_python: FakePython) -> None:
    fake_python("3.12.4")
    newest = fake_python("3.15.1")
    fake_python("3.13.2")
    assert tool.best().path == newest


def test_the_best_is_else_debian_stables(
    tool: ModuleType, fake_python: FakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python("3.11.2")
    stable = fake_python("3.13.5", debian_python(tool, "3.13"))

    def unpacked_with(minor: str, extras: list[str]) -> object:
        if minor == "3.14":
            raise tool.InterpreterError("the mirror has none")
        return tool.unpacked(minor)

    monkeypatch.setattr(tool, "unpacked_with", unpacked_with)
    assert tool.best().path == stable


def test_falling_back_says_which_steps_that_costs(
    tool: ModuleType, fake_python: FakePython, capsys: pytest.CaptureFixture[str]
) -> None:
    fallback = fake_python("3.11.2")
    assert tool.best().path == fallback
    said = capsys.readouterr()
    assert said.out == ""
    assert "not a Debian system" in said.err
    assert "immortality" in said.err


def test_without_any_interpreter_it_fails_with_a_hint(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["interpreters", "path", "3.14"])
    with pytest.raises(SystemExit) as ending:
        tool.main()
    said = capsys.readouterr()
    assert ending.value.code == 1
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert "hint: " in said.err


@pytest.fixture
def debian_host(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host that passes for Debian and has a mirror; returns the path for its apt-get."""
    monkeypatch.setenv("PASTURE_DEBIAN_MIRROR", "http://mirror.test/debian")
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(tool, "KEYRING", keyring)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name in ("dpkg", "dpkg-deb"):
        write_program(tmp_path / "bin" / name, "exit 0")
    return tmp_path / "bin" / "apt-get"


def test_a_failing_apt_is_quoted_and_leaves_no_interpreter(
    tool: ModuleType, debian_host: Path
) -> None:
    write_program(debian_host, "echo 'E: could not resolve the mirror' >&2; exit 100")
    with pytest.raises(tool.InterpreterError, match="could not resolve the mirror"):
        tool.obtain("3.13", [])
    assert not debian_python(tool, "3.13").exists()


def test_apt_gets_folders_of_its_own_and_an_empty_package_database(
    tool: ModuleType, debian_host: Path, tmp_path: Path
) -> None:
    write_program(debian_host, f'printf "%s\\n" "$@" >{tmp_path}/words')
    archive = tool.DebianArchive("trixie")
    archive.refresh()
    words = (tmp_path / "words").read_text().splitlines()
    directories = [word.split("=")[1] for word in words if word.startswith("-oDir::")]
    assert len(directories) == 6
    assert all(directory.startswith(str(tool.CACHE)) for directory in directories)
    assert (archive.home / "status").read_text() == ""
    sources = (archive.home / "etc" / "sources.list").read_text()
    assert f"signed-by={tool.KEYRING}] http://mirror.test/debian trixie main\n" in sources


def test_the_mirror_is_the_one_of_the_hosts_apt(
    tool: ModuleType, debian_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PASTURE_DEBIAN_MIRROR")
    source = "bookworm\\tmain\\tDebian\\thttp://host.test/debian/"
    write_program(debian_host, f'[ "$1" != indextargets ] || printf "{source}\\n"')
    archive = tool.DebianArchive("sid")
    archive.refresh()
    sources = (archive.home / "etc" / "sources.list").read_text()
    assert sources.endswith("] http://host.test/debian sid main\n")


def test_without_a_mirror_the_error_names_the_variable(
    tool: ModuleType,
    debian_host: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PASTURE_DEBIAN_MIRROR")
    write_program(debian_host, "exit 0")
    monkeypatch.setattr(sys, "argv", ["interpreters", "path", "3.14"])
    with pytest.raises(SystemExit) as ending:
        tool.main()
    said = capsys.readouterr()
    assert (ending.value.code, said.out) == (1, "")
    assert "error: apt's configuration names no mirror of Debian\n" in said.err
    assert "hint: set PASTURE_DEBIAN_MIRROR" in said.err
    assert not (tool.CACHE / "apt" / "sid" / "refreshed").exists()


def test_the_package_index_is_read_once_a_day(
    tool: ModuleType, debian_host: Path, tmp_path: Path
) -> None:
    write_program(debian_host, f"echo called >>{tmp_path}/calls")
    archive = tool.DebianArchive("sid")
    archive.refresh()
    archive.refresh()
    assert (tmp_path / "calls").read_text() == "called\n"
    stamp = archive.home / "refreshed"
    os.utime(stamp, (0, stamp.stat().st_mtime - tool.INDEX_AGE_LIMIT_S - 1))
    archive.refresh()
    assert (tmp_path / "calls").read_text() == "called\ncalled\n"


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("/usr", "/root/usr"),
        ("/usr/include/python3.14", "/root/usr/include/python3.14"),
        ("-I/usr/include -L/usr/lib", "-I/root/usr/include -L/root/usr/lib"),
        ("/usr /usr/lib/python3.14", "/usr /root/usr/lib/python3.14"),
        ("--prefix='/usr/share'", "--prefix='/root/usr/share'"),
        ("/usr/bin/install -c", "/usr/bin/install -c"),
        ("/usr/libexec/x", "/usr/libexec/x"),
        ("/root/usr/include", "/root/usr/include"),
        ("/opt/usr/lib", "/opt/usr/lib"),
        (3, 3),
    ],
)
def test_configuration_values_move_where_they_mean_headers_or_libraries(
    tool: ModuleType, value: object, moved: object
) -> None:
    assert tool.relocated(value, Path("/root")) == moved


def test_sysconfig_and_the_header_of_an_unpacked_root_name_the_root(
    tool: ModuleType, tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    library = staging / "usr" / "lib" / "python3.14"
    headers = staging / "usr" / "include" / "python3.14"
    for folder in (library, headers):
        folder.mkdir(parents=True)
    data = library / "_sysconfigdata__linux_x86_64-linux-gnu.py"
    data.write_text("build_time_vars = {'INCLUDEPY': '/usr/include/python3.14', 'HAVE_X': 1}\n")
    (library / "_sysconfig_vars__linux_x86_64-linux-gnu.json").write_text('{"prefix": "/usr"}')
    (headers / "pyconfig.h").write_text(
        "#if defined(__x86_64__)\n#  include <x86_64-linux-gnu/python3.14/pyconfig.h>\n#endif\n"
    )
    tool.relocate_configuration(staging, Path("/root"), "3.14")
    namespace: dict[str, dict[str, object]] = {}
    exec(data.read_text(), namespace)
    assert namespace["build_time_vars"] == {
        "INCLUDEPY": "/root/usr/include/python3.14",
        "HAVE_X": 1,
    }
    variables = json.loads(next(library.glob("*.json")).read_text())
    assert variables == {"prefix": "/root/usr"}
    included = '#include "../x86_64-linux-gnu/python3.14/pyconfig.h"'
    assert included in (headers / "pyconfig.h").read_text()
