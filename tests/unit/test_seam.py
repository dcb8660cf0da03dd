"""The seam: `pasture` lies in a server or a program, `pasture_tools` looks at it from outside.

No module of `pasture` imports one of `pasture_tools`, or anything of PyPI except an engine's own
package in that engine's module. What lies in other programs (pytest's workers, a program out of an
image, an interpreter with the start file) keeps to the same side.
"""

import ast
from pathlib import Path

import pytest

from tests.unit.test_layers import (
    REPOSITORY,
    foreign,
    imported,
    imports,
    of_its_server,
    sources,
)

TOOLS = "pasture_tools"
pytestmark = pytest.mark.once

DOOR = "pasture.__main__"
"""`python -m pasture`: the one module of `pasture` that is the command, and that none imports."""

IN_PROGRAMS = (
    "packages/auto/src",
    "packages/image/src/pasture_image/inside",
    "packages/pytest-pasture/src",
)


def is_tool(name: str) -> bool:
    return name.partition(".")[0] == TOOLS


def of_pasture() -> list[str]:
    return [module for module in imports() if not is_tool(module) and module != DOOR]


def test_nothing_in_a_server_imports_the_command() -> None:
    crossing = {
        module: found
        for module in of_pasture()
        if (found := {name for name in imports()[module] if is_tool(name) or name == DOOR})
    }
    assert crossing == {}


def test_nothing_in_a_server_names_a_module_of_the_command() -> None:
    """A name that `import_module` would take, or `python -m`."""
    named = {
        module: node.value
        for module in of_pasture()
        for node in ast.walk(sources()[module][0])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith(TOOLS)
    }
    assert named == {}


def test_in_a_server_there_is_the_standard_library_the_extension_and_its_engine() -> None:
    strangers = {
        module: found
        for module in of_pasture()
        if (found := set(foreign(imports(), module)) - of_its_server(module))
    }
    assert strangers == {}


def test_python_m_pasture_is_the_command() -> None:
    assert imports()[DOOR] - {"__future__"} == {f"{TOOLS}.__main__"}


@pytest.mark.parametrize("folder", IN_PROGRAMS)
def test_what_lies_in_other_programs_imports_no_tool(folder: str) -> None:
    if not (REPOSITORY / folder).is_dir():
        pytest.skip("the package is installed without its sources")
    found = {
        path.name: names
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if (names := [name for name in imported(_tree(path), "none") if is_tool(name)])
    }
    assert found == {}


def _tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", ["import pasture_tools.top", "def f():\n    import click"])
def test_an_import_across_the_seam_is_found_wherever_it_is(line: str) -> None:
    added = frozenset(imported(ast.parse(line), "pasture.sealing.seal"))
    changed = {**imports(), "pasture.sealing.seal": imports()["pasture.sealing.seal"] | added}
    assert any(map(is_tool, added)) or foreign(changed, "pasture.serving.sealer")
