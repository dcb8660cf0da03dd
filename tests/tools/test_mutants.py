"""The table of mutants fits the sources and the claims. `make test-mutants` applies them."""

import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
CLAIMS = REPOSITORY / "docs" / "internals" / "claims.md"

pytestmark = pytest.mark.once


def read_table() -> Any:
    return runpy.run_path(str(REPOSITORY / "tests" / "mutants" / "__main__.py"))["read_table"]()


def test_each_line_stands_once_in_its_file_and_each_test_exists() -> None:
    for mutant in read_table():
        before = (REPOSITORY / mutant.file).read_text()
        after = mutant.apply(before)
        assert after != before and len(after.splitlines()) == len(before.splitlines())
        named = [word for word in mutant.test.split() if word.endswith(".py")]
        assert named and all((REPOSITORY / word).exists() for word in named), mutant.name


def test_each_claim_names_mutants_and_each_mutant_is_named() -> None:
    rows = [line for line in CLAIMS.read_text().splitlines() if line.startswith("| ")]
    named = [name for row in rows[2:] for name in row.split("|")[4].strip().split(", ")]
    assert sorted(named) == sorted(mutant.name for mutant in read_table())
