"""What is shown of an application that cannot be imported: the application's own lines."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from pasture.errors import AppImportFailed
from pasture.serving.preload import importing

pytestmark = pytest.mark.once


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SERVER = """
def load(app):
    with importing(app, server="gunicorn", hint="check"):
        importlib.import_module(app.partition(":")[0])
"""


def error_of(app: str) -> AppImportFailed:
    """The error of a server whose module is `__main__`, as under `python -m`."""
    sys.modules.pop(app.partition(":")[0], None)
    spec = importlib.util.find_spec("gunicorn")
    server: dict[str, Any] = {"__name__": "__main__", "__spec__": spec}
    server |= {"importing": importing, "importlib": importlib}
    exec(SERVER, server)
    with pytest.raises(AppImportFailed) as raised:
        server["load"](app)
    return raised.value


def own_lines(error: AppImportFailed) -> list[str]:
    return [line for line in error.hint.splitlines() if line.strip().startswith("File ")]


def test_a_name_that_is_wrong_has_no_traceback(site: Path) -> None:
    (site / "shop_of_mine.py").write_text("app = None\n")
    assert error_of("shop_of_mnie:app").hint == "did you mean shop_of_mine:app?"
    assert error_of("quite_another:app").hint == "check"


def test_an_error_in_the_application_begins_with_its_own_line(site: Path) -> None:
    (site / "failing.py").write_text("import nothing_of_that_name\n")
    error = error_of("failing:app")
    assert "No module named 'nothing_of_that_name'" in error.message
    assert len(own_lines(error)) == 1 and "failing.py" in own_lines(error)[0]


def test_each_error_of_a_chain_does_and_all_lines_are_indented(site: Path) -> None:
    """`pasture try` finds the end of a hint by its indentation."""
    (site / "chained.py").write_text(
        "try:\n    import nothing_of_that_name\nexcept ImportError as e:\n"
        "    raise RuntimeError('settings') from e\n"
    )
    error = error_of("chained:app")
    assert error.message.endswith("RuntimeError: settings")
    assert len(own_lines(error)) == 2
    first, *others = error.hint.splitlines()
    assert first == "check" and all(line.startswith("    ") for line in others)
