"""The Makefile: what pages name is there, and benchmarks say what they are."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
FOLDERS = ("docs", "benchmarks", "matrix", "tests", "tools", "packages", "examples", "demo", "pypy")
NAMED = re.compile(r"(?:^    |`)make ([a-z][a-z-]*[a-z])(?=[ `\n])", re.MULTILINE)


def pages() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (ROOT / folder).rglob("*.md")


def can_be_made(target: str) -> bool:
    if re.search(rf"^(?:[a-z-]+ )*{target}(?: [a-z-]+)*:(?!=)", MAKEFILE, re.MULTILINE):
        return True
    kind, _, name = target.partition("-")
    module = name.replace("-", "_")
    if kind == "bench":
        aliases = re.findall(rf"^{target}: MODULE = (\w+)$", MAKEFILE, re.MULTILINE)
        return any((ROOT / f"benchmarks/{one}.py").exists() for one in (module, *aliases))
    if kind == "fuzz":
        return (ROOT / f"tests/fuzz/{module}/__main__.py").exists()
    return (kind == "soak" and (ROOT / f"benchmarks/soak_{module}.py").exists()) or kind == "demo"


def test_each_target_that_a_page_names_can_be_made() -> None:
    named = {one: page for page in pages() for one in NAMED.findall(page.read_text())}
    named.pop("install", None)  # a user's own
    assert len(named) > 40
    missing = {one: page.name for one, page in named.items() if not can_be_made(one)}
    assert missing == {}


def test_each_benchmark_says_in_its_first_line_what_it_measures() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        first = path.read_text().partition("\n")[0]
        assert re.match(r'"""(`make [a-z-]+`: )?.{20}', first), path.name
