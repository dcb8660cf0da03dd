"""Names that a program's own folder could have modules of, and an image has others under.

By `python` the folder of the program comes first on the search path, so a module there takes the
place of any other of its name. In an image the other one is loaded already. So `pasture-python`
compares the folder with these names (src/stub/beside.c). Owns which names count: not those that the
interpreter has loaded before it looks at the program, and not those that it finds in itself.
"""

from __future__ import annotations

import _imp
import os
import sys
from collections.abc import Collection, Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import NamedTuple


class Name(NamedTuple):
    """A top-level name.

    Attributes:
        text: the name.
        folder: in which the image has found the module; "" if that is not known, or there is none.
        is_open: a folder of that name is enough, without a module of it: the image has a namespace
            package, or found nothing.
    """

    text: str
    folder: str
    is_open: bool


def names(loaded: Iterable[str], sought: Iterable[str], at_start: Collection[str]) -> list[Name]:
    """The names that count, sorted as the stub looks them up.

    Args:
        loaded: names of the modules of an image.
        sought: top-level names that it has looked for, found or not.
        at_start: names of modules that the interpreter had loaded before its program.
    """
    if sys.flags.safe_path:
        return []  # such a program's folder is not on the search path
    found = {name.partition(".")[0] for name in (*loaded, *sought)}
    counted = (name for name in found if not _is_before(name, at_start))
    return sorted((_name(text) for text in counted), key=lambda name: os.fsencode(name.text))


def _is_before(name: str, at_start: Collection[str]) -> bool:
    is_inside = name in sys.builtin_module_names or _imp.is_frozen(name)
    return is_inside or name in at_start or name in ("__main__", "__mp_main__")


def _name(text: str) -> Name:
    try:
        spec = find_spec(text)
    except (ImportError, AttributeError, ValueError):  # a module without a specification
        return Name(text, "", text not in sys.modules)
    if spec is None:
        return Name(text, "", is_open=True)
    return Name(text, _folder(spec), spec.origin is None)


def _folder(spec: ModuleSpec) -> str:
    if spec.submodule_search_locations is not None:
        # Of a namespace package any folder of that name is a part: the first one is compared.
        inside = next(iter(spec.submodule_search_locations), "")
        return os.path.dirname(inside)  # noqa: PTH120
    return os.path.dirname(spec.origin or "") if spec.has_location else ""  # noqa: PTH120
