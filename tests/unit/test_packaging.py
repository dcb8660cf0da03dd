"""packaging/: its versions are those of pyproject.toml, and it names no path of a machine."""

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGING = REPOSITORY / "packaging"
pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("debian/changelog", r"\Apasture \(([^)]+)\)"),
        ("conda/recipe.yaml", r'(?m)^  version: "([^"]+)"$'),
    ],
)
def test_a_package_has_the_version_of_the_project(file: str, pattern: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    found = re.search(pattern, (PACKAGING / file).read_text())

    assert found is not None and found[1] == project["version"]


def test_no_file_names_a_folder_of_a_users_machine() -> None:
    files = [path for path in PACKAGING.rglob("*") if path.is_file()]

    assert len(files) > 5
    assert not [path for path in files if re.search(r"/(home|root|work|tmp)/", path.read_text())]
