"""A guess for a mistyped application: a file in the place of a module, a similar name.

Reads the files of a folder and imports nothing.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

_USUAL = ("app", "application", "api", "server", "asgi", "wsgi", "create_app")
_MAX_BYTES = 1 << 20
_MAX_MODULES = 1000


def guess(app: str, folder: Path) -> str:
    """The application that was probably meant, as `shop:app`; "" without a guess."""
    module, colon, name = app.partition(":")
    file = folder / module
    if module.endswith(".py") and not Path(module).is_absolute() and file.is_file():
        dotted = ".".join(Path(module).with_suffix("").parts)
        names = _names_in(file)
        usual = next((each for each in _USUAL if each in names), _USUAL[0])
        return f"{dotted}:{name or (f'{usual}()' if usual == 'create_app' else usual)}"
    top, dot, rest = module.partition(".")
    known = list(_modules(folder))
    if top in known:
        meant = _near_in(folder, module, name)
        return f"{module}:{meant}" if meant else ""
    if not top.isidentifier():
        return ""
    near = next(iter(difflib.get_close_matches(top, known, n=1)), "")
    return f"{near}{dot}{rest}{colon}{name}" if near else ""


def did_you_mean(app: str, folder: Path) -> str:
    """The guess as a sentence, or ""."""
    meant = guess(app, folder)
    return f"did you mean {meant}?" if meant else ""


def _modules(folder: Path) -> Iterator[str]:
    try:
        for path in sorted(folder.iterdir())[:_MAX_MODULES]:
            if path.suffix == ".py" or (path / "__init__.py").is_file():
                yield path.stem
    except OSError:
        return


def _near_in(folder: Path, module: str, name: str) -> str:
    """The name in a module that is most similar; "" if the name exists or none is similar."""
    place = folder.joinpath(*module.split("."))
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    names = next((found for file in files if (found := _names_in(file))), frozenset[str]())
    word = name.removesuffix("()")
    if not word.isidentifier() or not names or word in names:
        return ""
    near = next(iter(difflib.get_close_matches(word, sorted(names), n=1)), "")
    return f"{near}()" if near == "create_app" else near


def _names_in(file: Path) -> frozenset[str]:
    """Names that a file binds at its top level; none if it cannot be read."""
    try:
        with file.open("rb") as content:
            tree = ast.parse(content.read(_MAX_BYTES))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(name for node in tree.body for name in _bound_by(node))


def _bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
