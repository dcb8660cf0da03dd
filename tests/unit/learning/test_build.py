"""Building a profile's entries: what is built, what is refused, and what is no longer there."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pasture.fork_safety import generators, identity
from pasture.profile import effects
from pasture.profile.build import Built, build, build_in_image, problems_of
from pasture.profile.file import profile_of

threads_are_audited = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="CPython 3.11 has no audit event for the start of a thread"
)

MODULES = {
    "plain": "VALUE = 5",
    "second": "import learned_plain\nassert learned_plain.VALUE == 5",
    "broken": "1 / 0",
    "needy": "import no_such_package_at_all",
    "ending": "raise SystemExit(3)",
    "printing": "print('welcome')",
    "threaded": "import threading\nthreading.Thread(target=len, args=('',)).start()",
    "writing": "open({there!r}, 'w')",
    "appending": "import os\nos.open({there!r}, os.O_CREAT | os.O_WRONLY)",
    "folder": "import os\nos.mkdir({there!r})",
    "connected": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "database": "import sqlite3\nsqlite3.connect({there!r})",
    "process": "import subprocess\nsubprocess.run(['true'])",
    "forking": "import os\nos.fork()",
    "keeping": "import sys\nstream, write = sys.stdout, sys.stdout.write\n",
    "secretly": "try:\n    print('welcome')\nexcept BaseException:\n    pass",
    "changing": "import os\nos.environ['LEARNED'] = 'after'",
    "reading": "open(__file__).close()",
    "started": "import time\nSTARTED = time.time()",
    "caches": "import functools\n"
    "@functools.cache\n"
    "def table():\n    return ['built']\n"
    "@functools.cache\n"
    "def line():\n    open({there!r}, 'w')\n"
    "@functools.cache\n"
    "def of(number):\n    return [number]\n"
    "import os, random, uuid\n"
    "@functools.cache\n"
    "def name():\n    return f'worker-{os.getpid()}'\n"
    "@functools.cache\n"
    "def drawn():\n    return [random.random()]\n"
    "@functools.cache\n"
    "def key():\n    return str(uuid.uuid4())\n"
    "table_of_old = table.__wrapped__\n",
}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that no module may make; modules are there to import."""
    target = tmp_path / "made"
    for name, source in MODULES.items():
        path = tmp_path / f"learned_{name}.py"
        path.write_text(source.replace("{there!r}", repr(str(target))))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield target
    for name in [name for name in sys.modules if name.startswith("learned_")]:
        del sys.modules[name]


def built(kind: str, *values: str) -> dict[str, Built]:
    return {one.entry.partition(" ")[2]: one for one in build(profile_of({kind: values}))}


def test_a_thread_is_known_where_the_program_has_another_get_ident(tmp_path: Path) -> None:
    """As gevent has, whose own makes an audit event (`id`, from CPython 3.12 on)."""
    (tmp_path / "learned_late.py").write_text("open(__file__, 'a')")
    program = (
        "import _thread, sys\n"
        "_thread.get_ident = lambda: sys.audit('pasture.test') or 1\n"
        "from pasture.profile.build import build\n"
        "from pasture.profile.file import profile_of\n"
        "print(build(profile_of({'module': ['learned_late']}))[0].problem)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("refused: it makes a file ")


def test_modules_are_imported_in_their_order(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found = built("module", "learned_plain", "learned_second", "learned_reading")
    assert all(one.problem is None for one in found.values())
    names = [name for name in sys.modules if name.startswith("learned_")]
    assert names == ["learned_plain", "learned_second", "learned_reading"]
    assert len(list(there.parent.glob("__pycache__/learned_*"))) == 3


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("printing", "output"),
        pytest.param("threaded", "a thread", marks=threads_are_audited),
        ("writing", "a file"),
        ("appending", "a file"),
        ("folder", "a file"),
        ("connected", "a connection"),
        ("database", "a connection"),
        ("process", "a process"),
        ("forking", "a process"),
    ],
)
def test_a_module_with_an_effect_is_refused_before_it_has_it(
    there: Path, capfd: pytest.CaptureFixture[str], name: str, effect: str
) -> None:
    threads = threading.active_count()
    problem = built("module", f"learned_{name}")[f"learned_{name}"].problem
    assert problem is not None
    assert problem.startswith(f"refused: it makes {effect}")
    assert f"learned_{name}" not in sys.modules
    assert not there.exists()
    assert threading.active_count() == threads
    assert capfd.readouterr().out == ""


def test_an_effect_that_the_module_hides_is_reported_all_the_same(there: Path) -> None:
    assert "refused: it makes output" in str(built("module", "learned_secretly"))


def test_effects_are_free_again_afterwards(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built("module", "learned_writing")
    there.write_text("ours")
    print("ours")
    assert capsys.readouterr().out == "ours\n"


def test_a_module_that_keeps_standard_output_can_write_to_it_later(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert built("module", "learned_keeping")["learned_keeping"].problem is None
    module = sys.modules["learned_keeping"]
    assert module.stream is sys.stdout
    module.stream.write("one ")
    module.write("two ")
    print("three")
    assert capsys.readouterr().out == "one two three\n"


def test_effects_of_other_threads_are_their_own(there: Path) -> None:
    may_write, done = threading.Event(), threading.Event()

    def write() -> None:
        may_write.wait(30)
        there.write_text("x")
        done.set()

    other = threading.Thread(target=write)
    other.start()
    with effects.refused() as found:
        may_write.set()
        done.wait(30)
    other.join()
    assert found == []
    assert there.exists()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("module", "learned_no_such_module"),
        ("module", "json.no_such_module"),
        ("cache", "learned_no_such_module:f"),
        ("cache", "learned_caches:no_such_function"),
        ("cache", "learned_caches:table_of_old"),
        ("template", "django nowhere page.html"),
        ("template", "jinja learned_no_such_module:env page.html"),
    ],
)
def test_what_is_no_longer_there_is_reported(there: Path, kind: str, value: str) -> None:
    assert built("module", "learned_caches")["learned_caches"].problem is None
    problem = built(kind, value)[value].problem
    assert problem is not None


def test_what_fails_is_reported_and_the_rest_is_built(there: Path) -> None:
    names = ("broken", "needy", "ending", "plain")
    found = built("module", *(f"learned_{name}" for name in names))
    problems = [bool(one.problem) for one in found.values()]
    assert problems == [True, True, True, False]
    assert "no_such_package_at_all" in str(found["learned_needy"].problem)


def test_caches_of_functions_without_arguments_are_filled(there: Path) -> None:
    built("module", "learned_caches")
    found = built("cache", "learned_caches:table", "learned_caches:of(...)", "learned_caches:line")
    assert set(found) == {"learned_caches:table", "learned_caches:line"}
    module = sys.modules["learned_caches"]
    assert module.table.cache_info().currsize == 1
    assert found["learned_caches:table"].problem is None
    assert "a file" in str(found["learned_caches:line"].problem)
    assert not there.exists()


def test_a_cache_that_each_worker_would_fill_otherwise_stays_empty(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_SMALL", 0)  # also where this process has a small id
    assert built("module", "learned_caches")["learned_caches"].problem is None
    caches = sys.modules["learned_caches"]
    with generators.observed():
        found = built("cache", *(f"learned_caches:{name}" for name in ("name", "drawn", "key")))
    problems = {one.partition(":")[2]: str(outcome.problem) for one, outcome in found.items()}
    itself = ": each worker makes it for itself"
    assert problems["name"] == f"it holds the id of a process{itself}"
    assert problems["drawn"] == f"it holds a random number{itself}"
    assert problems["key"].endswith(itself)  # of its digits some may be a small id by chance
    assert not any(getattr(caches, name).cache_info().currsize for name in ("name", "drawn", "key"))


def test_a_module_that_is_the_parents_own_is_reported(there: Path) -> None:
    problem = built("module", "learned_started")["learned_started"].problem
    assert problem == "it holds a time: all workers have the parent's"


def test_a_cache_that_is_filled_already_is_left_alone(there: Path) -> None:
    built("module", "learned_caches")
    table = sys.modules["learned_caches"].table
    table()
    built("cache", "learned_caches:table")
    assert table.cache_info()[:2] == (0, 1)


def test_nothing_of_a_module_that_makes_its_attributes_is_called() -> None:
    class Lazy(type(sys)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    sys.modules["learned_lazy"] = Lazy("learned_lazy")
    try:
        assert "no longer there" in str(built("cache", "learned_lazy:table"))
    finally:
        del sys.modules["learned_lazy"]


def test_regular_expressions_are_compiled_and_broken_ones_reported() -> None:
    re.purge()
    found = built("pattern", '2 "learned-[a-z]+"', '0 "("')
    assert [one.problem is None for one in found.values()] == [False, True]
    assert any("learned-[a-z]+" in str(key) for key in re._cache)  # type: ignore[attr-defined]


def test_of_many_problems_some_are_shown() -> None:
    many = tuple(Built(f"module m{n}", 0.0, 0, "gone") for n in range(30))
    assert len(problems_of(many)) == 11
    assert problems_of(many)[-1] == "20 more entries were not built"


def test_when_the_time_is_over_the_rest_is_left_out(there: Path) -> None:
    profile = profile_of({"module": ["learned_plain", "learned_second"]})
    assert all(one.problem == "left out: the time is over" for one in build(profile, total_s=1e-9))


@pytest.mark.once
def test_servers_without_a_profile_load_no_module_of_profiles() -> None:
    program = "import sys, pasture.serving.sealer; print('pasture.profile' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_no_audit_hook_is_left_once_all_is_built(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(profile_of({"module": ["learned_plain"]}))
    monkeypatch.setattr(effects, "_found", [])  # as while an entry is built
    monkeypatch.setattr(effects, "_thread", threading.get_ident())
    sys.audit("os.mkdir", "made")


def test_in_an_image_the_same_is_refused_and_changes_are_left(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEARNED", "before")
    modules = ["learned_writing", "learned_broken", "learned_ending", "learned_changing"]
    built = build_in_image(profile_of({"module": modules}))
    assert [one.problem for one in built] == [
        f"refused: it makes a file ({there})",
        "ZeroDivisionError: division by zero",
        "SystemExit: 3",
        None,
    ]
    assert os.environ["LEARNED"] == "after"
