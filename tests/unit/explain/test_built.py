"""Modules that a worker imported for itself: names, order, lines."""

import pytest

pytest.importorskip("numpy")

from pasture_tools.explain.built import MAX_LINES, Built, ranked

pytestmark = pytest.mark.once


def names(found: list[Built]) -> list[str]:
    return [one.module for one in found]


def test_a_module_counts_for_the_outermost_package_that_is_new() -> None:
    modules = {"pandas": "/p/__init__.py", "pandas.core": "", "pandas.core.frame": "/p/frame.py"}
    modules |= {"site.views.late": "/s/late.py"}
    found = ranked(modules, {"/p/__init__.py": 10, "/p/frame.py": 1000, "/s/late.py": 500})
    assert names(found) == ["pandas", "site.views.late"]
    assert found[0].bytes / found[1].bytes == pytest.approx(1010 / 500)
    assert found[0].entry == "module pandas"


def test_code_that_no_new_module_is_of_does_not_count() -> None:
    assert ranked({"json": "/json.py", "so": "/so.so"}, {"/old.py": 10**6}) == []


def test_the_largest_stand_first_and_no_more_than_fit() -> None:
    modules = {f"m{n:02}": f"/{n}.py" for n in range(MAX_LINES + 5)}
    found = ranked(modules, {f"/{n}.py": n * 100 for n in range(MAX_LINES + 5)})
    assert len(found) == MAX_LINES
    assert names(found)[0] == f"m{MAX_LINES + 4}"
