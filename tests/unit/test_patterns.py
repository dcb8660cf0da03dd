"""No regular expression of pasture takes more than a number of steps in proportion to a text.

All of them: those that modules hold, and those in calls of `re`. Texts are logs, names,
headers, pages and documents of other programs and users: one that grows with the square of a line
keeps a command busy, one that grows faster never lets it end.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.backtracking import Counter, TooManySteps, texts

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", *(f"packages/{name}/src" for name in ("image", "pytest-pasture", "auto", "lab")))
ANCHORED = frozenset(("match", "fullmatch"))
METHODS = ANCHORED | {"compile", "search", "sub", "subn", "findall", "finditer", "split"}
REPEATS = 120
MAX_PER_CHARACTER = 25
"""Steps: a constant that no repeat multiplies."""


class Used(NamedTuple):
    """A pattern, and where it is."""

    where: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    is_searched: bool


def patterns() -> Iterator[Used]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _of(path.relative_to(ROOT), ast.parse(path.read_bytes()))


def _of(path: Path, tree: ast.Module) -> Iterator[Used]:
    named = {id(node.value): node.targets[0].id for node in ast.walk(tree)
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _is_of(node.func, "re") and node.args):
            continue
        assert isinstance(node.func, ast.Attribute)
        text, ways = _text(node.args[0]), {node.func.attr}
        if text is not None and node.func.attr in METHODS:
            if node.func.attr == "compile":
                ways = _uses(tree, named.get(id(node), "")) or _uses(tree, None)
            yield Used(
                f"{path}:{node.lineno}", re.compile(text, _flags(node)), not ways <= ANCHORED
            )


def _is_of(function: ast.expr, name: str | None) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == (name or function.value.id)
    )


def _uses(tree: ast.Module, name: str | None) -> set[str]:
    """Methods that a module takes of the pattern with a name; None: of any name but `re`."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
             and _is_of(node, name) and not _is_of(node, "re")}  # fmt: skip
    return found & METHODS - {"compile"}


def _text(node: ast.expr) -> str | bytes | None:
    """A pattern that is there; for what is put into it there is one letter."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
        return "".join(str(part) for part in parts)
    return None


def _flags(node: ast.Call) -> int:
    found = 0
    for part in (*node.args[1:], *(k.value for k in node.keywords)):
        for name in ast.walk(part):
            if isinstance(name, ast.Attribute) and isinstance(getattr(re, name.attr, None), int):
                found |= getattr(re, name.attr)
    return found


ALL = list(patterns())


def test_all_patterns_are_found() -> None:
    places = " ".join(one.where for one in ALL)
    assert len(ALL) > 60
    for place in ("trial/diagnosis.py", "client/skeleton.py", "learning/file.py", "record.py"):
        assert place in places


@pytest.mark.parametrize("used", ALL, ids=[one.where for one in ALL])
def test_a_pattern_takes_steps_in_proportion_to_the_text(used: Used) -> None:
    for text in texts(used.pattern, REPEATS):
        counter = Counter(used.pattern, text, MAX_PER_CHARACTER * (len(text) + 20))
        try:
            counter.search() if used.is_searched else counter.match()
        except TooManySteps:
            pytest.fail(f"{used.pattern.pattern!r} takes more than so on {text!r}")


@pytest.mark.parametrize(
    "text", [r"(a+)+b", r"(?:\n[ \t]+.+)*x", r"a*a*b", r"\s+$", r"(a|a)*b", r"x.*y.*z"]
)
def test_the_count_finds_what_backtracks(text: str) -> None:
    pattern = re.compile(text)
    with pytest.raises(TooManySteps):
        for one in texts(pattern, REPEATS):
            Counter(pattern, one, MAX_PER_CHARACTER * (len(one) + 20)).search()
