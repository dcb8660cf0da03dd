"""packaging/: its versions are those of pyproject.toml, and it names no path of a machine."""

import json
import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGING = REPOSITORY / "packaging"
COMPANIONS = REPOSITORY / "packages"
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


@pytest.mark.parametrize("project", [".", *sorted(p.name for p in COMPANIONS.iterdir())])
def test_the_list_of_parts_names_the_package_as_it_is(project: str) -> None:
    folder = REPOSITORY if project == "." else COMPANIONS / project
    known = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    [file] = (PACKAGING if project == "." else folder).glob("*.cdx.json*")
    listed = json.loads(file.read_text())["metadata"]["component"]
    assert file.name.partition(".")[0] == listed["name"] == known["name"]
    assert listed["version"] == known["version"]
    assert listed["licenses"] == [{"license": {"id": known["license"]}}]
    assert listed["purl"] == f"pkg:pypi/{known['name']}@{known['version']}"
