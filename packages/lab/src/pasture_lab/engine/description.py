"""The table of an experiment: its words, published figures, rules and plots, read from TOML.

Owns the format and its checks; what runs is in the module beside the table. `<word>` in a text
stands for what the module fills in, `{part.figure}` for a measured figure. A published ratio
may be written as the two figures that it is of: "67.9 / 190.8".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pasture.errors import UsageError
from pasture_lab.engine.experiment import Experiment, Plot, Row
from pasture_lab.engine.rule import Rule

Words = Mapping[str, object]
"""Texts to fill in, by their words."""

_Filled = TypeVar("_Filled", Row, Plot, Rule)

_WORD = re.compile(r"<([^<>]*)>")
_RATIO = re.compile(r"(\d+(?:\.\d+)?) / (\d+(?:\.\d+)?)")
_KINDS = ("lines", "bars", "names")


def read_experiment(
    path: Path, *, words: Words | None = None, each: Sequence[Words] = ({},), **runs: Any
) -> Experiment:
    """The experiment of a table and of the runs of its module.

    Args:
        words: filled in everywhere.
        each: filled in the rows and plots, which are there once for each.
        runs: `parts` of an `Experiment`, and `derive` and `more_rows` if it has them.

    Raises:
        UsageError: the table cannot be read, or holds what an experiment does not have.
    """
    table = _read(path)
    rows, plots = table.pop("rows", []), table.pop("plots", [])
    table.pop("more", None)
    common = dict(words or {})
    text = {key: _filled(f"{path.name}: {key}", value, common) for key, value in table.items()}
    every = [common | dict(more) for more in each]
    read = {
        "rows": tuple(fill(row, w, path.name) for w in every for row in _rows(path.name, rows)),
        "plots": tuple(
            fill(plot, w, path.name) for w in every for plot in _plots(path.name, plots)
        ),
    }
    return Experiment(**_arguments(path.name, Experiment, text, read | runs))


def read_rows(path: Path, name: str) -> tuple[Row, ...]:
    """Rows that stand in a table under `more`, as they are; `fill` fills them.

    Raises:
        UsageError: as of `read_experiment`, or there are none of that name.
    """
    more = _read(path).get("more")
    if not isinstance(more, dict) or name not in more:
        raise _error(path.name, f"has no rows [[more.{name}]]")
    return _rows(f"{path.name}: more.{name}", more[name])


def fill(item: _Filled, words: Words, where: str = "") -> _Filled:
    """A row, plot or rule with its words filled in.

    Args:
        where: it stands, for the error.

    Raises:
        UsageError: there is a word that is not given.
    """
    values = {field.name: getattr(item, field.name) for field in fields(item)}
    return replace(item, **{name: _filled(where, value, words) for name, value in values.items()})


def _filled(where: str, value: Any, words: Words) -> Any:
    """A text, or those of a list or a rule, with the words filled in."""
    if isinstance(value, Rule):
        return fill(value, words, where)
    if isinstance(value, list | tuple):
        return type(value)(_filled(where, item, words) for item in value)
    if not isinstance(value, str):
        return value
    unknown = [word for word in _WORD.findall(value) if word not in words]
    if unknown:
        raise _error(where, f"<{unknown[0]}> is filled in by nothing")
    return _WORD.sub(lambda found: str(words[found[1]]), value)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _error(str(path), f"cannot be read: {error}") from None


def _rows(where: str, items: Any) -> tuple[Row, ...]:
    rows = []
    for place, item in _numbered(where, "row", items):
        rule = {"rule": _rule(f"{place}, rule", item.pop("rule"))} if "rule" in item else {}
        row = Row(**_arguments(place, Row, item, rule))
        if row.published and row.rule is None and not row.never:
            raise _error(place, "a published figure needs a rule, or `never` with the reason")
        rows.append(row)
    return tuple(rows)


def _rule(where: str, item: Any) -> Rule:
    if not isinstance(item, dict):
        raise _error(where, "it is no table")
    rule = Rule(**_arguments(where, Rule, {**item, **_ratio(where, item.get("published"))}, {}))
    if rule.least is None and rule.most is None:
        raise _error(where, "it needs a bound, `least` or `most`")
    return rule


def _ratio(where: str, published: Any) -> dict[str, float]:
    if not isinstance(published, str):
        return {}
    found = _RATIO.fullmatch(published)
    if found is None or not float(found[2]):
        raise _error(where, "published is no number, and no two as in `1.5 / 2`")
    return {"published": float(found[1]) / float(found[2])}


def _plots(where: str, items: Any) -> tuple[Plot, ...]:
    plots = []
    for place, item in _numbered(where, "plot", items):
        if item.get("kind", "lines") not in _KINDS:
            raise _error(place, f"kind is none of {', '.join(_KINDS)}")
        plots.append(Plot(**_arguments(place, Plot, item, {})))
    return tuple(plots)


def _numbered(where: str, noun: str, items: Any) -> list[tuple[str, dict[str, Any]]]:
    """Copies of tables with their places, counted from 1."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _error(where, f"a {noun} is no table in double brackets")
    return [(f"{where}: {noun} {number}", dict(item)) for number, item in enumerate(items, 1)]


def _arguments(
    where: str, kind: type, item: Mapping[str, Any], made: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a dataclass: those of a table, checked against its fields, and `made`."""
    known = {field.name: field for field in fields(kind) if field.name not in made}
    _require_known(where, item, known)
    for name, field in known.items():
        if name not in item and field.default is MISSING and field.default_factory is MISSING:
            raise _error(where, f"it has no {name}")
    return {name: _value(where, name, known[name].type, item[name]) for name in item} | dict(made)


def _require_known(where: str, item: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = [name for name in item if name not in known]
    if unknown:
        raise _error(where, f"{unknown[0]} is unknown; known are {', '.join(known)}")


def _value(where: str, name: str, kind: Any, value: Any) -> Any:
    """A value that is of the kind that its field says; lists become tuples."""
    if kind == "tuple[str, ...]":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _error(where, f"{name} is no list of texts")
        return tuple(value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise _error(where, f"{name} is neither true nor false")
    elif kind == "float | None":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _error(where, f"{name} is no number")
    elif not isinstance(value, str):
        raise _error(where, f"{name} is no text")
    return value


def _error(where: str, what: str) -> UsageError:
    return UsageError(
        f"{where}: {what}",
        hint="the table is a part of pasture-lab: fix it, or install the package again",
    )
