"""The layers of the distribution, read from the import statements of its modules.

    cli -> commands -> servers, display -> serving -> refork, sealing, warmup, proc, ... -> errors

Inside a package the same holds for its modules and folders: no ring. Imports inside functions and
under TYPE_CHECKING count like any other: an arrow is an arrow.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import pasture
from pasture.servers.engines import ENGINES

pytestmark = pytest.mark.once

ROOT = Path(pasture.__file__).parent
ROOTS = tuple(root for root in (ROOT, ROOT.with_name("pasture_tools")) if root.is_dir())
"""The import packages of the distribution."""

OURS = frozenset(root.name for root in ROOTS)
REPOSITORY = ROOT.parent.parent
COMPANIONS = ("packages/image/src/pasture_image", "packages/pytest-pasture/src/pytest_pasture")
BESIDES = ("packages/lab/src/pasture_lab", "packages/auto/src/pasture_auto")
IMAGE_FLOORS = ("command", "build", "inside")
"""Of `pasture_image`, from the roof to the ground: `inside` lies in every image."""
COMMANDS = frozenset(("trial", "explain", "top", "doctor", "metrics"))
ADVISER = frozenset(("doctor",))
"""A command that others ask for its advice."""
FLOORS = (
    frozenset(("__main__",)),
    frozenset(("cli",)),
    COMMANDS - ADVISER,
    ADVISER,
    frozenset(("__init__",)),
    frozenset(("servers", "display")),
    frozenset(("serving",)),
    frozenset(("gc", "refork", "sealing", "probe", "warmup", "fork_safety", "own_values"))
    | frozenset(("scoreboard", "launch", "learning", "main_program", "observing", "proc"))
    | frozenset(("sizing", "trust", "user_cache")),
    frozenset(("interpreter",)),
    frozenset(("errors", "log_lines", "off", "reasons", "_native")),
)
"""Packages and modules right below an import package, from the roof to the ground."""

GROUND = FLOORS[-3]
"""Here packages may import each other, as long as none comes back to itself."""

STANDARD_LIBRARY_ALONE = (
    "sealing",
    "scoreboard",
    "probe",
    "warmup",
    "learning",
    "fork_safety",
    "own_values",
    "refork",
    "servers",
    "serving",
    "gc",
)
"""What runs in a process that is sealed: whatever it imports is sealed in with it."""

Imports = Mapping[str, frozenset[str]]


def imported(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[str]:
    """Dotted names that the statements of a module import, wherever they are."""
    here = module.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = here[: len(here) - node.level + is_package] if node.level else []
            base = ".".join((*up, *filter(None, (node.module,))))
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def sources() -> Mapping[str, tuple[ast.AST, bool]]:
    """Of each module of the distribution: its syntax tree, and whether it is a package."""
    found = {}
    for path in sorted(path for root in ROOTS for path in root.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8")), is_package
    return found


@cache
def imports() -> Imports:
    """The modules of pasture that each of them imports, and what else by its first name."""
    trees = sources()
    return {
        module: frozenset(
            known
            for name in imported(tree, module, is_package)
            if (known := module_of(name, trees)) != module
        )
        for module, (tree, is_package) in trees.items()
    }


def module_of(name: str, modules: Mapping[str, object]) -> str:
    """The module that a dotted name is or lies in."""
    first = name.partition(".")[0]
    while first in OURS and name != first and name not in (*modules, "pasture._native"):
        name = name.rpartition(".")[0]
    return name if first.startswith("pasture") else first


def room(module: str) -> str:
    """The package or module right below an import package that a module belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def floor(module: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room(module) in rooms)


def against_layers(found: Imports) -> list[str]:
    """Imports that go upward, or sideways where that is not allowed."""
    return [
        f"{module} imports {other}"
        for module, others in sorted(found.items())
        for other in sorted(others)
        if other.partition(".")[0] in OURS and room(module) != room(other)
        if floor(other) < floor(module)
        or (floor(other) == floor(module) and room(module) not in GROUND)
    ]


def rings(arrows: Mapping[str, set[str]]) -> list[str]:
    """Those that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(arrows.get(start, ()))
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += arrows.get(name, ())
        return seen

    return [name for name in sorted(arrows) if name in reached(name)]


def inside(found: Imports, package: str) -> dict[str, set[str]]:
    """Imports among the modules and folders right below a package, from one to another.

    Its `__init__` is one of them.
    """

    def part(module: str) -> str:
        return f"{module.removeprefix(package)}.__init__".split(".")[1]

    arrows: dict[str, set[str]] = {}
    for module, others in found.items():
        if is_below(module, package):
            known = {part(other) for other in others if is_below(other, package)}
            arrows.setdefault(part(module), set()).update(known - {part(module)})
    return arrows


def is_below(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def rings_of_folders(found: Imports) -> list[str]:
    """In every package the modules and folders that come back to themselves."""
    packages = [module for module, (_, is_package) in sources().items() if is_package]
    return [f"{package}: {name}" for package in packages for name in rings(inside(found, package))]


def foreign(found: Imports, module: str) -> dict[str, str]:
    """What is neither pasture's nor the standard library's: name, and the module it is imported by.

    Follows imports of pasture's own modules, and of the packages that they lie in.
    """
    seen, left, strangers = {module}, [module], {}
    while left:
        name = left.pop()
        parts = name.split(".")
        parents = {".".join(parts[:n]) for n in range(2, len(parts))}
        for other in (found.get(name, frozenset()) | parents) - seen:
            if other.partition(".")[0] in OURS:
                seen.add(other)
                left.append(other)
            elif other not in sys.stdlib_module_names:
                strangers[other] = name
    return strangers


def of_its_server(module: str) -> frozenset[str]:
    """What a module may import because it runs inside that server."""
    place = set(module.split(".")[2:]) if room(module) == "servers" else set()
    rows = (row for row in ENGINES.values() if place & {row.name, row.module.split(".")[2]})
    return frozenset(name for row in rows for name in row.imports)


@pytest.mark.parametrize("companion", COMPANIONS)
def test_these_distributions_need_no_server_and_no_command(companion: str) -> None:
    folder = REPOSITORY / companion
    if not folder.is_dir():
        pytest.skip("the package is installed without its sources")
    found = {
        room(name)
        for path in folder.rglob("*.py")
        for name in imported(ast.parse(path.read_text(encoding="utf-8")), folder.name, True)
        if name.partition(".")[0] in OURS
    }
    assert "proc" in found
    assert found <= GROUND | {"__init__", "display", "errors", "interpreter", "off", "reasons"}


@cache
def imports_of_companion(companion: str) -> Imports:
    """The modules of a companion that each of its modules imports."""
    folder = REPOSITORY / companion
    trees = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        trees[".".join(parts[:-1] if is_package else parts)] = (tree, is_package)

    def known(name: str) -> str:
        while name and name not in trees:
            name = name.rpartition(".")[0]
        return name

    return {
        module: frozenset(map(known, imported(tree, module, is_package))) - {"", module}
        for module, (tree, is_package) in trees.items()
    }


def test_each_folder_of_an_image_imports_only_those_below_it() -> None:
    found = imports_of_companion(COMPANIONS[0])
    if not found:
        pytest.skip("the package is installed without its sources")
    upward = [
        f"{module} imports {other}"
        for module, others in found.items()
        for other in others - {"pasture_image"}
        if module != "pasture_image"
        if IMAGE_FLOORS.index(room(other)) < IMAGE_FLOORS.index(room(module))
    ]
    assert upward == []


@pytest.mark.parametrize("companion", (*COMPANIONS, BESIDES[0]))
def test_no_module_of_a_companion_comes_back_to_itself(companion: str) -> None:
    arrows = {module: set(others) for module, others in imports_of_companion(companion).items()}
    assert rings(arrows) == []


def test_nothing_of_the_package_imports_a_companion() -> None:
    companions = {Path(folder).name for folder in (*COMPANIONS, *BESIDES)}
    upward = {
        module: found for module, others in imports().items() if (found := others & companions)
    }
    assert upward == {}


@pytest.mark.parametrize(
    ("concept", "word", "places"),
    [
        ("a finder", r"meta_path\.insert\(", ("observing", "servers.import_watch")),
        ("a hook of audit events", r"add_?audit_?hook", ("observing",)),
        ("a lock of a file or folder", r"fcntl\.flock\(", ("trust.locks",)),
        ("the words for on and off", r'"off", "false"', ("off",)),
        # What asks in an image has none of `trust`, which would be in it.
        ("a socket's other end", "SO_PEERCRED", ("inside.loops", "trust.unix_sockets")),
        ("the wait after failures in a row", r"\bclass Backoff\b", ("refork.shortage",)),
    ],
)
def test_one_concept_is_in_one_place(concept: str, word: str, places: tuple[str, ...]) -> None:
    """Besides start files, which import nothing of pasture: the doctor's, and that of a recipe."""
    folders = [*ROOTS, *(REPOSITORY / folder for folder in COMPANIONS)]
    found = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for folder in folders
        for path in folder.rglob("*.py")
        if re.search(word, path.read_text(encoding="utf-8"))
    }
    assert found - {"doctor.watch.sitecustomize", "build.recipe"} == set(places), concept


def test_every_module_has_a_floor() -> None:
    assert {room(module) for module in imports()} <= frozenset().union(*FLOORS)


def test_no_import_goes_upward_or_from_one_command_to_another() -> None:
    assert against_layers(imports()) == []


def test_no_package_or_folder_comes_back_to_itself_through_its_imports() -> None:
    assert rings_of_folders(imports()) == []


def test_no_module_comes_back_to_itself_through_its_imports() -> None:
    arrows = {module: set(others) for module, others in imports().items()}
    assert rings(arrows) == []


def test_what_two_engines_need_is_not_among_the_engines() -> None:
    arrows = inside(imports(), "pasture.servers")
    needed = [other for others in arrows.values() for other in others - {"engine", "engines"}]
    assert {other for other in needed if needed.count(other) > 1} == set()


def test_the_table_of_engines_imports_nothing() -> None:
    table = imports()["pasture.servers.engines"] | imports()["pasture.servers"]
    assert table <= {"__future__", "collections", "typing"}


@pytest.mark.parametrize("promised", STANDARD_LIBRARY_ALONE)
def test_what_runs_in_a_sealed_process_needs_the_standard_library_alone(promised: str) -> None:
    strangers = {
        module: found
        for module in imports()
        if room(module) == promised and (found := foreign(imports(), module))
        if set(found) - of_its_server(module)
    }
    assert strangers == {}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("pasture.proc.smaps", "from pasture.scoreboard import reader"),
        ("pasture.serving.sealer", "import pasture_tools.trial.run"),
        ("pasture.serving.setting", "from pasture.servers.engines import Row"),
        ("pasture_tools.explain.table", "def f():\n    from pasture_tools.top import table"),
        ("pasture_tools.display.units", "if TYPE_CHECKING:\n    from ..cli import main"),
        ("pasture_tools.display.units", "from pasture.servers import engine"),
        ("pasture.serving.settings", "from pasture.servers.gunicorn.arbiter import SealingArbiter"),
        ("pasture.servers.gunicorn.hooks", "from pasture.servers.gunicorn.refork import spawn"),
    ],
)
def test_an_arrow_that_is_turned_around_is_found_wherever_it_stands(module: str, line: str) -> None:
    added = {module_of(name, sources()) for name in imported(ast.parse(line), module)}
    changed = {**imports(), module: imports()[module] | added}
    assert against_layers(changed) or rings_of_folders(changed)


def test_a_library_that_comes_in_through_another_module_is_found() -> None:
    changed = {**imports(), "pasture.trust.private_files": frozenset(("psutil",))}
    assert foreign(changed, "pasture.sealing.snapshot") == {"psutil": "pasture.trust.private_files"}
