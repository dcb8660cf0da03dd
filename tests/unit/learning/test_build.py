"""Building entries: what is built, what is refused, and what is no longer there."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pasture.learning.build import GONE, build

threads_are_audited = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="CPython 3.11 has no audit event for the start of a thread"
)

MODULES = {
    "plain": "VALUE = 5",
    "second": "import learned_plain\nassert learned_plain.VALUE == 5",
    "broken": "int('alice@example.org')",
    "needy": "import no_such_package_at_all",
    "ending": "raise SystemExit(3)",
    "threaded": "import threading\nthreading.Thread(target=len, args=('',)).start()",
    "writing": "open({there!r}, 'w')",
    "appending": "import os\nos.open({there!r}, os.O_CREAT | os.O_WRONLY)",
    "folder": "import os\nos.mkdir({there!r})",
    "connected": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "database": "import sqlite3\nsqlite3.connect({there!r})",
    "process": "import subprocess\nsubprocess.run(['true'])",
    "forking": "import os\nos.fork()",
    "secretly": "try:\n    open({there!r}, 'w')\nexcept BaseException:\n    pass",
    "changing": "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    "reading": "open(__file__).close()",
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


def problem_of(line: str) -> str:
    [(built, problem)] = build([line])
    assert built == line
    return problem


def test_modules_are_imported_in_their_order(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    names = ["learned_plain", "learned_second", "learned_reading"]
    assert [*build(f"module {name}" for name in names)] == [
        (f"module {name}", "") for name in names
    ]
    assert [name for name in sys.modules if name.startswith("learned_")] == names
    assert len(list(there.parent.glob("__pycache__/learned_*"))) == 3


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        pytest.param("threaded", "a thread", marks=threads_are_audited),
        ("writing", "a file"),
        ("appending", "a file"),
        ("folder", "a file"),
        ("connected", "a connection"),
        ("database", "a connection"),
        ("process", "a process"),
        ("forking", "a process"),
        ("secretly", "a file"),
    ],
)
def test_a_module_with_an_effect_is_refused_before_it_has_it(
    there: Path, name: str, effect: str
) -> None:
    threads = threading.active_count()
    assert problem_of(f"module learned_{name}").startswith(f"makes {effect} (")
    assert not there.exists()
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("module learned_broken", "raises ValueError"),
        ("module learned_needy", "raises ModuleNotFoundError"),
        ("module learned_ending", "raises SystemExit"),
        ("module learned_changing", "changes the handler of SIGUSR1"),
        ("module learned_missing", GONE),
        ("module learned_plain.missing", GONE),
        ("template jinja learned_plain:environment page.html", GONE),
        ("template jinja learned_missing:environment page.html", GONE),
        ('pattern 0 "("', "raises PatternError" if sys.version_info >= (3, 13) else "raises error"),
        ('pattern 0 "learned-pattern-[0-9]"', ""),
    ],
)
def test_a_problem_is_said_without_a_word_of_the_program(
    there: Path, line: str, problem: str
) -> None:
    assert problem_of(line) == problem


def test_a_pattern_is_in_the_cache_of_re_then(there: Path) -> None:
    re.purge()
    assert problem_of('pattern 2 "learned-[0-9]+"') == ""
    assert any("learned-[0-9]+" in key for key in vars(re)["_cache"])


def test_a_thread_is_known_where_the_program_has_another_get_ident(tmp_path: Path) -> None:
    """As gevent has, whose own makes an audit event (`id`, from CPython 3.12 on)."""
    (tmp_path / "learned_late.py").write_text("open(__file__, 'a')")
    program = (
        "import _thread, sys\n"
        "_thread.get_ident = lambda: sys.audit('pasture.test') or 1\n"
        "from pasture.learning.build import build\n"
        "print(*build(['module learned_late']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "makes a file (open)" in done.stdout


def test_a_server_without_a_file_loads_nothing_of_it() -> None:
    program = "import sys, pasture.serving.sealer; print('pasture.learning' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
