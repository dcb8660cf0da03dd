"""What differs where folders that variables name are others: not in the image.

Two loads are compared that differ in nothing else. What differs without them is left out: so it
does after a second load. Assumed is that modules treat each plain path the same, but for those
that a path in their code is a part of, or has (`paths_in_code`). Not seen: what only code in C
keeps.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import CellType, FrameType, FunctionType, MemberDescriptorType
from typing import Any

from pasture_image.inside import kept, record
from pasture_image.inside.renewed import is_of_start
from pasture_image.inside.trial import in_c

_OF_ADDRESS = re.compile(r"\[[0-9]{8,}\]")
_Pairs = Mapping[str, tuple[str, str]]
"""The folder that a variable names, and the one that it named elsewhere."""
_Found = tuple[str, list[tuple[int, str | int, list[str]]], list[str], bool]
"""As `renewed.Follows`, with the addresses of holders."""


def remove(folder: str) -> None:
    """With all that a load has made in it."""
    shutil.rmtree(folder, ignore_errors=True)


def write(file: int, mark: str, names: Collection[str]) -> bool:
    """Write this process's values; whether all texts with a mark are among them.

    Args:
        names: of variables that have one.
    """
    for name, value in {**in_c(), **os.environ}.items():  # no closure has the mark
        if name not in names and mark in value.lower():  # a module has set it
            return False
    if mark in os.getcwd():  # noqa: PTH109
        return False
    edges: Counter[tuple[int, int]] = Counter()
    kept.write(file, (), edges)
    classes = {id(ref): id(one) for one in gc.get_objects() if issubclass(type(one), type)
               for ref in gc.get_referents(one) if type(ref) is dict}  # fmt: skip
    texts: dict[int, Any] = {}
    todo = gc.get_objects()  # `isinstance` would run code of proxies
    forgotten = set()  # by the collector: those of texts alone
    for one in todo:
        if one is texts or one is os.environ._data or type(one) is FrameType:  # type: ignore[attr-defined]
            continue
        for text in gc.get_referents(one):
            if type(text) in (dict, tuple) and not gc.is_tracked(text):
                if id(text) not in forgotten:
                    forgotten.add(id(text))
                    todo.append(text)
            elif issubclass(type(text), (str, bytes)) and mark in os.fsdecode(text).lower():
                if (classes.get(id(one), id(one)), id(text)) not in edges:
                    return False
                texts[id(text)] = text
    one = text = None
    times: Counter[int] = Counter()
    for (_, at), often in edges.items():
        times[at] += often
    sample = {0: f"{mark}{times}"}
    return all(sys.getrefcount(texts[at]) <= times[at] + sys.getrefcount(sample[0]) for at in texts)


def values(holders: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    """Of this process (`kept`), with the same modules as in the others."""
    in_c()
    return kept.values(holders)


def differing(own: Mapping[str, Any], written: Any) -> set[str]:
    """Paths on which another process has written something else, or one of the two nothing."""
    *_, memory, others = written
    alone = {
        path
        for path in own.keys() ^ others.keys()
        if not _OF_ADDRESS.search(path) and not path.startswith(kept.RENEWED)
    }
    return kept.differing(own, others, memory) | alone


def compare(
    pairs: _Pairs,
    asked: Mapping[str, Sequence[Any]],
    values: tuple[Mapping[str, Any], Mapping[str, tuple[Any, str]]],
    elsewhere: Any,
    by_itself: set[str],
) -> tuple[dict[str, _Found], list[str]]:
    """What follows each variable, and what is against that.

    Args:
        asked: of their folders, as `asked` says it.
        values: of this process, and what holds each.
        elsewhere: what a load has written in which folders are others.
        by_itself: paths on which one differs in which they are the same.
    """
    (own, holders), (*_, there) = values, elsewhere
    differ = differing(own, elsewhere)
    own_pairs = {id(one) for one in holders.values()}
    found: dict[str, _Found] = {n: (v, [], *asked[n]) for n, (v, _) in pairs.items()}
    left = []
    for path in sorted(differ):
        text, before = there.get(path), own.get(path)
        names = [name for name, (_, folder) in pairs.items() if _has(text, folder)]
        if type(text) is not str or not names:
            if any(_has(before, value) for value, _ in pairs.values()):
                by_itself.discard(path)
            is_alike = type(text) is type(before) and type(text) is not bool
            if (
                not names
                and path in by_itself
                and (is_alike or path not in own or path not in there)
            ):
                continue
            return {}, [f"{' or '.join(pairs)} decides {kept.owner(path)}"]
        for name in names:
            value, folder = pairs[name]
            place = None
            if path in holders:
                holder, label = holders[path]  # a tuple of arguments would refer to the holder, too
                place = _place(holder, label, own_pairs)
            if name not in found:
                continue
            at = (id(place[0]), place[1]) if place is not None else None
            is_taken = any(at == one[:2] for one in found[name][1])  # a slot hides another one
            if at is None or is_taken or len(names) > 1 or text.replace(folder, value) != before:
                left.append(f"{name} decides {kept.owner(path)}")
                del found[name]
            else:
                found[name][1].append((*at, text.split(folder)))
    return found, left


def _has(value: object, folder: str) -> bool:
    return folder in (value if isinstance(value, str) else repr(value))


def asked(
    values: Mapping[str, str], looked_at: int
) -> tuple[dict[str, tuple[list[str], bool]], list[str]]:
    """What was looked for in folders, and which variables lead to more.

    Args:
        looked_at: descriptor of the record.
    """
    found, left = {}, []
    lookups = record.of_modules(looked_at)
    for name, value in values.items():
        try:
            found[name] = _asked(value, lookups)
        except LookupError as error:
            left.append(f"{name} decides {error}, which modules found or wrote")
    return found, left


def _asked(value: str, lookups: Iterable[record.Lookup]) -> tuple[list[str], bool]:
    """What was looked for in a folder and not there; whether the folder was.

    Raises:
        LookupError: something was there, or the load has written there.
    """
    missing, is_there = set(), False
    for lookup in lookups:
        path = lookup.path
        if not f"{path}/".startswith(f"{value}/") or _is_of_python(path):
            continue
        if path == value and lookup.call not in ("list", "write"):
            is_there = True
        elif lookup.error in record.NOT_THERE and not record.writes(lookup):
            missing.add(path[len(value) :])
        else:
            raise LookupError(path)
    return sorted(missing), is_there


def _is_of_python(path: str) -> bool:
    """The interpreter and its packages look at what is below their folders, and above."""
    folders = (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path)
    return is_of_start(path) or any(f"{path}/".startswith(f"{one}/") for one in folders if one)


def _place(holder: Any, label: str, own: Collection[int]) -> tuple[Any, str | int] | None:
    """What `renewed` can put a text into."""
    if type(holder) is CellType:
        return holder, 0
    if label.startswith("."):
        return (holder, label[1:]) if _has_attribute(holder, label[1:]) else None
    key = int(label[1:-1]) if re.fullmatch(r"\[[0-9]+\]", label) else None
    if key is None or type(holder) is list:
        return None if key is None else (holder, key)
    if type(holder) is not tuple:
        return None
    held_by = [
        one for one in gc.get_referrers(holder) if type(one) is not FrameType and id(one) not in own
    ]
    function = held_by[0] if len(held_by) == 1 else None
    is_default = type(function) is FunctionType and function.__defaults__ is holder
    return (function, key) if is_default else None


def _has_attribute(holder: Any, name: str) -> bool:
    if type(holder) is dict or issubclass(type(holder), type):
        return True
    if issubclass(type(holder), (dict, list, tuple, FunctionType)):
        return False
    of_class = getattr(type(holder), name, None)
    if type(of_class) is MemberDescriptorType:  # of no class in C
        return "__slots__" in vars(of_class.__objclass__)
    return not hasattr(type(of_class), "__set__")
