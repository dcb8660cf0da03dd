"""What a child records. Here the child is this process, which records from now on."""

import errno
import functools
import importlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pasture.fork_safety import caches, identity
from pasture.profile import file
from pasture.profile.file import Profile, profile_of
from pasture.profile.recorder import Recorder

MARK = "learned-literal-[0-9]+"
HEADERS = (("Host", "shop.example.org:8000"), ("Cookie", "session=alice"))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The profile; a package is there to import."""
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("import lazily.beside\nimport re\nre.compile('of-import')")
    (package / "beside.py").write_text("")
    (package / "caches.py").write_text(
        "import functools\n@functools.cache\ndef table():\n    return {}\n"
        "class Rates:\n    @functools.cache\n    def of(self, number):\n        return number\n"
    )
    (package / "own.py").write_text(
        "import functools, os, secrets, uuid\n"
        "@functools.cache\ndef name():\n    return f'worker-{os.getpid()}'\n"
        "@functools.lru_cache\ndef drawn():\n    return {'id': uuid.uuid4()}\n"
        "@functools.lru_cache\ndef same():\n    return {'id': 'same'}\n"
    )
    (package / "started.py").write_text("import time\nSTARTED = time.time()\n")
    (package / "keyed.py").write_text("import secrets\nKEY = secrets.token_bytes(8)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "site.profile"
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazily"]:
        del sys.modules[name]


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    recorder = Recorder()
    recorder._path = path
    recorder._of_parent = caches.caches()
    recorder.begin()
    yield recorder
    recorder.stop()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def recorded(recorder: Recorder, path: Path) -> Profile:
    recorder.stop()
    return file.read(path)


def test_modules_that_no_other_imports_are_recorded_in_their_order(
    recorder: Recorder, path: Path
) -> None:
    importlib.import_module("lazily.inner")

    importlib.import_module("lazily.caches")
    with pytest.raises(ImportError):
        importlib.import_module("lazily.missing")
    assert recorded(recorder, path).of("module") == ("lazily.inner", "lazily.caches")


def test_an_import_is_in_the_file_while_the_process_runs_on(recorder: Recorder, path: Path) -> None:
    importlib.import_module("lazily.beside")

    wait_for(path.exists)
    assert file.read(path).of("module") == ("lazily.beside",)


def test_caches_that_grew_are_recorded(recorder: Recorder, path: Path) -> None:
    caches = importlib.import_module("lazily.caches")

    @functools.cache
    def local() -> int:
        return 1

    caches.table(), caches.Rates().of(5), local()
    assert recorded(recorder, path).of("cache") == (
        "lazily.caches:Rates.of(...)",
        "lazily.caches:table",
    )


def test_regular_expressions_are_recorded_that_stand_in_the_code(
    recorder: Recorder, path: Path
) -> None:
    importlib.import_module("lazily.inner")

    typed = "alice " + str(os.getpid())
    re.purge()
    re.search("stands-here", "text")
    re.search(MARK, "text", re.IGNORECASE)
    re.search(re.escape(typed), "text")
    assert recorded(recorder, path).of("pattern") == ('0 "stands-here"', f'2 "{MARK}"')


def test_requests_answered_twice_are_recorded_without_secrets(
    recorder: Recorder, path: Path
) -> None:
    for _ in range(2):
        recorder.answered("GET", "/search/?q=alice&page=2", HEADERS, 200)
        recorder.answered("GET", "/invite/7f3a9c1d22/", HEADERS, 200)
        recorder.answered("POST", "/", HEADERS, 200)
        recorder.answered("GET", "/missing/", HEADERS, 404)
    recorder.answered("GET", "/once/", HEADERS, 200)
    found = recorded(recorder, path).of("request")
    assert found == ("GET http://shop.example.org/search/?q=&page=2",)


def test_a_request_that_fails_without_its_values_is_taken_out_and_not_learned_again(
    recorder: Recorder, path: Path
) -> None:
    line, other = "GET http://shop.example.org/tile/?url=", "GET http://shop.example.org/tile/?y="
    file.write(path, profile_of({"request": [line], "failed": [other]}))
    recorder.failed = frozenset([line])
    for _ in range(2):
        recorder.answered("GET", "/tile/?url=a.tif", HEADERS, 200)
        recorder.answered("GET", "/tile/?y=a.tif", HEADERS, 200)
        recorder.answered("GET", "/", HEADERS, 200)
    found = recorded(recorder, path)
    assert found.of("request") == ("GET http://shop.example.org/",)
    assert set(found.of("failed")) == {line, other}


def test_what_is_in_the_file_already_is_kept(path: Path, recorder: Recorder) -> None:
    file.write(path, profile_of({"module": ["elsewhere"], "connection": ["tcp 1"]}))
    importlib.import_module("lazily")

    profile = recorded(recorder, path)
    assert profile.of("module") == ("elsewhere", "lazily")
    assert profile.of("connection") == ("tcp 1",)


def test_without_news_no_file_is_made(recorder: Recorder, path: Path) -> None:
    recorder.stop()
    assert not path.exists()


def test_after_the_end_the_process_is_as_before(path: Path) -> None:
    before = list(sys.meta_path), re._compiler.compile, os._exit  # type: ignore[attr-defined]
    recorder = Recorder()
    recorder._path = path
    recorder.begin()
    recorder.stop()
    recorder.stop()
    assert (sys.meta_path, re._compiler.compile, os._exit) == before  # type: ignore[attr-defined]
    assert not recorder.is_on


@pytest.mark.parametrize("content", [b"# pasture profile 9\n", b"\xff\xfe", b"x" * 5_000_000])
def test_a_file_that_is_no_profile_is_left_alone(
    recorder: Recorder, path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(content)
    importlib.import_module("lazily")

    recorder.stop()
    assert path.read_bytes() == content
    assert "records nothing more: cannot" in capfd.readouterr().err


def test_a_folder_that_is_gone_ends_the_recording_alone(
    recorder: Recorder, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder._path = path.parent / "gone" / "site.profile"
    importlib.import_module("lazily")

    wait_for(lambda: not recorder.is_on)
    assert "records nothing more" in capfd.readouterr().err


def test_while_another_holds_the_folder_nothing_is_lost(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr("pasture.profile.recorder._LOCK_S", 0.0)
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    importlib.import_module("lazily")

    recorder._look()
    assert not path.exists()
    os.close(folder)
    wait_for(lambda: (recorder._look(), path.exists())[1])
    assert file.read(path).of("module") == ("lazily",)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_it_is_recorded_on_a_file_system_without_locks(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    importlib.import_module("lazily")
    wait_for(lambda: (recorder._look(), path.exists())[1])
    assert file.read(path).of("module") == ("lazily",)


def test_a_full_disk_ends_the_recording_and_keeps_the_file(
    recorder: Recorder,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file.write(path, profile_of({"module": ["before"]}))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pasture.trust.private_files.os.replace", full)
    importlib.import_module("lazily")
    recorder.stop()
    assert file.read(path).of("module") == ("before",)
    assert [one.name for one in path.parent.iterdir() if one.name.endswith(".part")] == []
    assert "records nothing more: [Errno 28]" in capfd.readouterr().err


def test_a_module_that_loads_itself_at_its_first_use_stays_unloaded(
    recorder: Recorder, path: Path
) -> None:
    spec = importlib.util.find_spec("lazily.beside")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["lazily.beside"] = module
    spec.loader.exec_module(module)
    kind = type(module)
    assert recorded(recorder, path).of("module") == ("lazily.beside",)
    assert type(module) is kind


def test_what_names_the_process_is_not_recorded_and_no_longer_in_the_file(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_SMALL", 0)  # also where this process has a small id
    file.write(path, profile_of({"cache": ["lazily.own:name"], "module": ["lazily.started"]}))
    own = importlib.import_module("lazily.own")
    importlib.import_module("lazily.started")
    own.name(), own.same()
    profile = recorded(recorder, path)
    assert profile.of("cache") == ("lazily.own:same",)
    assert profile.of("module") == ("lazily.own",)


def test_what_another_process_has_otherwise_is_not_recorded_and_no_longer_in_the_file(
    recorder: Recorder, path: Path
) -> None:
    def use() -> None:
        importlib.import_module("lazily.keyed")
        own = importlib.import_module("lazily.own")
        own.drawn(), own.same()

    use()
    profile = recorded(recorder, path)
    assert profile.of("cache") == ("lazily.own:drawn", "lazily.own:same")
    assert profile.of("module") == ("lazily.keyed", "lazily.own")
    for name in ("own", "keyed"):
        del sys.modules[f"lazily.{name}"]
    another = Recorder()  # as another process has it
    another._path, another._of_parent = path, caches.caches()
    another._compared = recorder._compared
    another.begin()
    use()
    profile = recorded(another, path)
    assert profile.of("cache") == ("lazily.own:same",)
    assert profile.of("module") == ("lazily.own",)
