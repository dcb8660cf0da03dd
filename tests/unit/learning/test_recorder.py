"""What a child records. Here the child is this process, which records from now on."""

import csv  # noqa: F401  is looked for
import errno
import functools
import gc
import importlib
import importlib.util
import json  # noqa: F401
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pasture.learning import code, file, found
from pasture.learning.recorder import Recorder


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file; a package is there to import."""
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("import lazily.beside\nimport re\nre.compile('of-import')")
    (package / "beside.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "site.auto"
    file.write(path, {"module elsewhere": file.OK})
    yield path
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazily"]:
        del sys.modules[name]


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    recorder = Recorder()
    recorder._path, recorder._size = path, path.stat().st_size
    recorder.begin()
    yield recorder
    recorder.stop()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def modules(path: Path) -> list[str]:
    return file.values_of(file.read(path), "module")


def test_modules_are_recorded_in_their_order_beside_what_was_there(
    recorder: Recorder, path: Path
) -> None:
    importlib.import_module("lazily.inner")
    with pytest.raises(ImportError):
        importlib.import_module("lazily.missing")
    recorder.stop()
    assert modules(path) == ["elsewhere", "lazily", "lazily.inner", "lazily.beside"]


def test_an_import_is_in_the_file_while_the_process_runs_on(recorder: Recorder, path: Path) -> None:
    importlib.import_module("lazily.beside")

    wait_for(lambda: "lazily.beside" in modules(path))


def test_no_module_is_recorded_while_one_is_loaded_that_may_have_imported_it() -> None:
    def modules_now() -> list[str]:
        return found.modules(["json", "csv", "no_such_module"])

    assert modules_now() == ["module json", "module csv"]
    spec = sys.modules["json"].__spec__
    vars(spec)["_initializing"] = True
    try:
        assert modules_now() == []
    finally:
        vars(spec)["_initializing"] = False


def test_an_object_that_was_there_before_is_not_kept_alive(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connection:
        def __init__(self) -> None:
            self.statement = functools.lru_cache(self._statement)
            self.statement("select 1")

        def _statement(self, text: str) -> str:
            return text

    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)  # all forks of tests would record
    connection = Connection()
    recorder = Recorder()
    recorder.watch(path, 0, (), shows_code=True)
    recorder.begin()
    recorder._look()
    there = weakref.ref(connection)
    del connection
    gc.collect()
    assert there() is None
    recorder.stop()


def test_patterns_are_recorded_that_are_constants_of_code_that_ran() -> None:
    def page(typed: str) -> object:
        return re.search("stands-here", typed) or re.search(typed, "text")

    re.purge()
    page("alice-has-typed-it")
    re.compile("no-constant-of-the-page", re.IGNORECASE)
    assert [*found.patterns([page.__code__])] == ['pattern 0 "stands-here"']


def test_code_has_the_name_of_its_module_if_that_can_be_imported() -> None:
    made: dict[str, Any] = {}
    exec(compile("def of_a_template(): pass", "<template>", "exec"), made)
    codes = [one.__code__ for one in (os.path.join, made["of_a_template"])]
    assert {name for name, _ in code._named(codes)} == {f"{os.path.__name__}:join"}


def test_without_news_the_file_stays(recorder: Recorder, path: Path) -> None:
    before = path.read_bytes()
    recorder.stop()
    assert path.read_bytes() == before


def test_after_the_end_the_process_is_as_before(path: Path) -> None:
    before = list(sys.meta_path), os._exit
    recorder = Recorder()
    recorder._path = path
    recorder.begin()
    recorder.stop()
    recorder.stop()
    assert (sys.meta_path, os._exit) == before
    assert not recorder.is_on


def test_a_file_that_is_gone_ends_the_recording_alone(
    recorder: Recorder, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path.unlink()
    importlib.import_module("lazily")

    wait_for(lambda: not recorder.is_on)
    assert "records nothing more" in capfd.readouterr().err
    assert not path.exists()


def test_a_full_disk_ends_the_recording_and_keeps_the_file(
    recorder: Recorder,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file, "append", full)
    importlib.import_module("lazily")
    recorder.stop()
    assert modules(path) == ["elsewhere"]
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
    recorder.stop()
    assert modules(path) == ["elsewhere", "lazily", "lazily.beside"]
    assert type(module) is kind
