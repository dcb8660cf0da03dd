"""Lazy imports that fail, hang, end the process or start threads when they are made."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 15), reason="lazy imports came with CPython 3.15"
)

MODULES = {
    "hanging": "import time\ntime.sleep(600)",
    "ending": "raise SystemExit(3)",
    "threaded": "import threading\nthreading.Timer(60, print).start()",
    "nested": "lazy import deeper\nvalue = 7",
    "deeper": "value = 8",
    "leaves": "import os\nos.chdir('/')",
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "inner" / "leaf.py").write_text("value = 9")
    return tmp_path


def test_imports_that_go_wrong_stay_pending_and_are_reported(run_program, modules):
    out = run_program(
        """
        lazy import no_such_module
        lazy import hanging
        lazy import ending
        lazy import nested
        lazy import leaves
        lazy import package.inner.leaf
        from pasture.warmup import lazy_imports
        before = os.getcwd()
        counts, problems = lazy_imports.resolve({lazy_imports.VARIABLE: "*"}, step_s=1.0)
        for problem in sorted(problems): print(problem.split(":")[0])
        left = [one.target for one in lazy_imports.pending()]
        print(sorted(left), counts["pending"], os.getcwd() == before)
        print([name in sys.modules for name in ("deeper", "package.inner.leaf", "hanging")])
        """,
        path=[modules],
    )
    assert out.splitlines() == [
        "lazy import ending of __main__",
        "lazy import hanging of __main__",
        "lazy import no_such_module of __main__",
        "['ending', 'hanging', 'no_such_module'] 3 True",
        "[True, True, False]",
    ]


def test_an_import_that_starts_a_thread_is_named_by_the_report_of_the_seal(run_program, modules):
    out = run_program(
        """
        lazy import threaded
        os.environ["PASTURE_LAZY_IMPORTS"] = "threaded"
        report = pasture.seal()
        print(report.sealed, report.step("resolve-imports").problems, flush=True)
        os._exit(0)
        """,
        path=[modules],
    )
    assert out == ("True ('lazy import threaded started a thread: leave it out with !threaded',)\n")


def test_a_worker_imports_nothing_of_the_standard_library_after_the_seal(run_program):
    out = run_program("""
        lazy import decimal
        lazy import xml.dom.minidom
        lazy from urllib.request import urlopen
        pasture.seal()
        loaded = set(sys.modules)
        def use():
            (decimal.Decimal, xml.dom.minidom.Document, urlopen)
            return sorted(set(sys.modules) - loaded)
        in_child(use)
        """)
    assert out == "[]\n"


def test_a_variable_that_holds_no_pattern_fails_one_step_and_nothing_else(run_program):
    out = run_program("""
        os.environ["PASTURE_LAZY_IMPORTS"] = "a b"
        report = pasture.seal()
        print(report.sealed, report.step("resolve-imports").failed)
        """)
    assert out == "True UsageError: 'a b' is not a module pattern\n"
