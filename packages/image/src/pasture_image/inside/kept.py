"""Texts that modules keep of the process that loads them: of its folder, and of its host.

Such a text is known by a part that is nowhere else, a copy of the search path by its items. All is
looked at that modules refer to, by the collector's own view of it, so objects in C count, too. In a
process that ends after that: nothing of it comes into an image. Not seen: what only code in C
keeps, and what follows from a text.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import NamespaceLoader
from typing import Any

from pasture_image.inside.begin import PROCESSES
from pasture_image.inside.program import names_of

_OWN = frozenset(
    ("pasture", "pasture_image", "pasture_auto", "__main__", "__mp_main__", "linecache")
)
_RENEWED = (
    *("gunicorn.config.", "platform._uname_cache", "celery.utils.nodenames."),
    "importlib.metadata.FastPath",
)
"""What `begin` renews, and a cache of folders that were searched."""
_OPAQUE = (
    *(types.BuiltinFunctionType, types.CodeType, types.FrameType, types.ModuleType),
    type(NamespaceLoader("", [], lambda *_: None)._path),  # type: ignore[attr-defined]
)
_MAX_FOLDED = 4096
_module_of = type.__dict__["__module__"].__get__


def _plain(text: str | bytes) -> str | bytes:
    """Of a class that may write itself as it likes."""
    return str.__str__(text) if isinstance(text, str) else bytes.__getitem__(text, slice(None))


def found(parts: Mapping[str, str], path: Sequence[str]) -> list[tuple[str, str]]:
    """What modules keep.

    Args:
        parts: of texts that are looked for, in lower case, and the code of the note on each.
        path: the search path, of which a copy is noted like the folder.

    Returns:
        Codes, and the module's name that leads to what is kept.
    """
    hosts = (part for part, code in parts.items() if code == "host")  # other texts have its name
    is_word = {host: re.compile(rf"\b{re.escape(host)}\b").search for host in hosts}
    re.purge()  # it would keep them
    notes = dict[tuple[str, str], None]()
    for one, owner in held():
        if owner.startswith(_RENEWED):
            continue
        if isinstance(one, str):
            text = one.lower() if len(one) < _MAX_FOLDED else one
            for part, code in parts.items():
                if part in text and (code != "host" or is_word[part](text)):
                    notes[code, owner] = None
        elif len(one) >= len(path) and all(a is b for a, b in zip(one, path, strict=False)):
            notes["folder", owner] = None
    return list(notes)


def held() -> Iterator[tuple[Any, str]]:
    """Texts, lists and tuples, each with the name of a module that leads there the shortest way."""
    gc.collect()
    gc.disable()
    modules = [sys.modules.get(f"{name}.process") for name in PROCESSES]
    renewed = [getattr(module, "_current_process", None) for module in modules]
    own = (os.environ, os.environ.__dict__, os.environb, sys.modules, sys.path, sys.argv)
    seen = {id(one) for one in (*own, sys.orig_argv, sys.path_importer_cache, *renewed)}
    todo: deque[tuple[Any, str]] = deque()
    for name, module in sorted(sys.modules.items()):
        if issubclass(type(module), types.ModuleType) and name.partition(".")[0] not in _OWN:
            names = names_of(module)
            seen.add(id(names))
            todo += [(one, f"{name}.{label}") for label, one in names.items()]
    while todo:
        one, owner = todo.popleft()
        kind = type(one)
        if id(one) in seen or issubclass(kind, _OPAQUE):
            continue
        seen.add(id(one))
        if str(_module_of(kind)).partition(".")[0] in _OWN:  # names and arguments, too
            continue
        if issubclass(kind, (str, bytes)):
            yield os.fsdecode(_plain(one)), owner
        elif kind is list or kind is tuple:
            yield one, owner
        todo += [(other, owner) for other in gc.get_referents(one)]
