"""Code objects by name: those that ran in a worker, and those that the parent's seal gathers.

A name is the module whose file the code was compiled from, and the code's qualified name. Code
without such a file, from `eval` or a template, has no name. Runs no code of the application.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.learning.found import contents_of


def that_ran(seen: set[int]) -> list[tuple[str, CodeType]]:
    """Names and code objects that ran since the last reset and were not gathered.

    Empty where that is unknown. `seen` has the ids of code from earlier calls.
    """
    new = [code for code in _codes(ran=True) if id(code) not in seen]
    seen.update(map(id, new))
    return list(_named(new))


def choose(names: Iterable[str], *, ran: bool) -> None:
    """Have the next seal gather only the code of these names; with `ran` also what ran here."""
    known = frozenset(names)
    chosen = [id(code) for name, code in _named(_codes(ran=False)) if name in known]
    try:
        native().choose_code(b"")  # else the chosen code counts as code that ran
        chosen += map(id, _codes(ran=True) if ran else ())
        native().choose_code(array("Q", chosen or [0]).tobytes())  # 0 gathers nothing
    except UnsupportedInterpreter:
        return


def _codes(*, ran: bool) -> list[CodeType]:
    try:
        codes: list[CodeType] = native().code_objects(ran)
        return codes
    except (NotImplementedError, UnsupportedInterpreter):
        return []


def _named(codes: Sequence[CodeType]) -> Iterator[tuple[str, CodeType]]:
    modules = {}  # by their files, as code has them
    for name, module in list(sys.modules.items()) if codes else ():
        held = contents_of(module)
        spec, file = held.get("__spec__"), held.get("__file__")
        if spec is not None and name != "__main__":
            is_frozen = getattr(spec, "origin", None) == "frozen"
            modules[f"<frozen {name}>" if is_frozen else str(file)] = name
    for code in codes:
        found = modules.get(code.co_filename)
        if found is not None and code.co_name != "<module>":  # which runs once
            yield f"{found}:{code.co_qualname}", code
