"""The table of types that free their own objects, against the interpreter.

A type of the standard library whose tp_dealloc gives back more than memory has to be seen as one:
else its objects are sealed, and what they hold is never given back. Nothing but the source says
what a tp_dealloc does: each is read once, and c_types.toml has what was found.
"""

import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pasture._native import HAS_IMMORTALITY

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "c_types.toml").read_text())

pytestmark = pytest.mark.skipif(not HAS_IMMORTALITY, reason="nothing is made immortal")


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[tuple[str, bool]]:
    """Of this interpreter: each type, and whether it is seen to have an end."""
    done = subprocess.run(
        [sys.executable, str(HERE / "c_types.py")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path_factory.mktemp("c_types"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def known() -> Iterator[str]:
    for part, rows in TABLE.items():
        yield from rows["types"] if part == "memory" else rows


def test_each_type_that_frees_its_objects_has_one_line_in_the_table(found):
    assert len(found) > 200
    assert sorted({name for name, _ in found} - set(known())) == []
    assert [name for name, count in Counter(known()).items() if count > 1] == []


def test_types_that_give_back_more_than_memory_and_no_others_are_seen_by_pasture(found):
    seen = {name for name, has_end in found if has_end}
    expected = {name for name, _ in found if name in TABLE["ends"] or name in TABLE["taken"]}
    assert seen == expected
