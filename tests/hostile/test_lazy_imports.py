"""Lazy imports that fail, hang or end the process when they are made."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 15), reason="lazy imports came with CPython 3.15"
)

MODULES = {
    "hanging": "import time\ntime.sleep(600)",
    "ending": "raise SystemExit(3)",
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
        from functools import partial
        from pasture.warmup import lazy_imports
        lazy_imports.Guard = partial(lazy_imports.Guard, step_s=1.0)
        sys.stdlib_module_names |= {
            "no_such_module", "hanging", "ending", "nested", "deeper", "leaves", "package"
        }
        before = os.getcwd()
        counts, problems = lazy_imports.resolve()
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


def test_where_all_imports_are_lazy_what_was_needed_is_bound_and_the_rest_is_never_loaded(
    run_program, modules
):
    (modules / "site_of_ours.py").write_text(
        "import needed, forgotten\n"
        "from needed import value, deeper\n"
        "import package.inner.leaf\n"
        "import no_such_module\n"
    )
    (modules / "needed.py").write_text("import deeper\nvalue = 1")
    (modules / "forgotten.py").write_text("raise SystemExit(4)")
    out = run_program(
        """
        from pasture.sealing.gc_settings import begin_loading
        sys.set_lazy_imports("all")
        begin_loading(pasture.POLICIES["seal"])
        import site_of_ours
        site_of_ours.needed.value
        report = pasture.seal()
        left = sorted(name for name, one in vars(site_of_ours).items() if "lazy" in str(type(one)))
        print(report.sealed, left, vars(site_of_ours)["value"])
        print([name in sys.modules for name in ("needed", "deeper", "forgotten", "package")])
        """,
        path=[modules],
    )
    assert out.splitlines() == [
        "True ['deeper', 'forgotten', 'no_such_module', 'package'] 1",
        "[True, False, False, False]",
    ]
