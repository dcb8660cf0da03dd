"""A program never gets yesterday's code, whatever way it was exchanged; nothing else counts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import cache

import changes
import pytest
from changes import Table
from images import Images

from pasture_image.inside import notes

pytestmark = [pytest.mark.once, pytest.mark.integration]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    @cache
    def table(name: str) -> Table:
        folder = tmp_path_factory.mktemp(name)
        folder.chmod(0o755)
        folder.parent.chmod(0o755)
        words = [f"--allow={kind}" for kind in sorted(notes.REFUSED)] if name == "REFUSED" else []
        return Table(getattr(changes, name), folder, *words)

    return table


ROWS = [(name, row) for name in ("FILES", "STARTS", "WALKS") for row in getattr(changes, name)]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_what_has_changed_since_the_build_is_what_python_finds(
    tables: Callable[[str], Table], name: str, row: str
) -> None:
    how = getattr(changes, name)[row][1]
    prefix = how.get("prefix", ()) if isinstance(how, dict) else ()
    if prefix and (os.geteuid() or subprocess.call([*prefix[: prefix.index("sh")], "true"]
                   if "sh" in prefix else [*prefix[:2], "true"])):  # fmt: skip
        pytest.skip("needs root, or a program that is not here")
    before, after, image, why = tables(name).compared(row)
    assert image == after != before, why.decode()


@pytest.mark.parametrize("row", changes.SAME)
def test_what_makes_no_difference_leaves_the_image_of_use(
    tables: Callable[[str], Table], row: str
) -> None:
    table = tables("FILES")
    with table.changed(changes.SAME[row]):
        assert table.images.why("-c", "pass", cwd="/") == ""


@pytest.mark.parametrize("row", changes.REFUSED)
def test_what_no_start_can_compare_is_named_and_allowed_by_that_name(
    tables: Callable[[str], Table], row: str
) -> None:
    table, kind = tables("REFUSED"), changes.REFUSED[row][0]
    module = f"m{[*changes.REFUSED].index(row)}"
    found = [one for one in table.images.document()["notes"] if one["code"] == kind]
    others = ("kernel", "state") if row != "the folder of a program" else (kind,)
    assert [one for one in found if kind in others or module in one["subject"]], found


@pytest.mark.parametrize("kind", sorted(notes.REFUSED))
def test_without_that_name_there_is_no_image(own_images: Images, kind: str) -> None:
    code = next(code for known, code in changes.REFUSED.values() if known == kind)
    own_images.module("asks", f"import os\n{code}\n")
    done = own_images.build("--preload", "asks")
    assert (done.returncode != 0, f"--allow {kind}" in done.stderr) == (True, True), done.stderr


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(own_images: Images) -> None:
    """Half of it may be old: here the module is changed between its own import and the image."""
    own_images.module("changing", "VALUE = 1\n")
    own_images.module(
        "slow",
        "import changing, pathlib\npath = pathlib.Path(changing.__file__)\n"
        "if changing.VALUE == 1: path.write_text('VALUE = 2\\n')\n",
    )
    own_images.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    own_images.built("--preload", "slow")
    source = "import changing, slow; print(changing.VALUE)"
    assert own_images.served("-c", source).out == b"2\n"
    own_images.module("changing", "VALUE = 3\n")
    assert own_images.run("-c", source).out == b"3\n"
    own_images.built("--preload", "slow")
    assert own_images.served("-c", source).out == b"3\n"
