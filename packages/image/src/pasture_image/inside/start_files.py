"""What start files have done before the load: `.pth` lines, `sitecustomize` and what they import.

They run once, at the build. Owns what of that programs get, and what is compared: variables that
they have set, and the names of variables in their texts.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress

from pasture_image.inside import environment
from pasture_image.inside.start_variables import is_uncounted

MODULES = ("sitecustomize", "usercustomize")
_OWN = ("pasture", "pasture_image", "pasture_auto", "__main__")
_NAME = re.compile(rb"""["']([A-Z_][A-Z0-9_]{2,63})["']""")


def set_variables() -> dict[str, str | None]:
    """Variables that this process was not started with so, as they are now; None: not set."""
    started, now = environment.own(), {**os.environ}
    for name in environment.coerced():
        del now[name]
    return {n: now.get(n) for n in started.keys() | now.keys() if started.get(n) != now.get(n)}


def names() -> set[str]:
    """Variables that start files may have read."""
    found = set[str]()
    for path in _texts():
        with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - as elsewhere here
            found.update(map(os.fsdecode, _NAME.findall(file.read())))
    return {name for name in found if not is_uncounted(name)}


def _texts() -> list[str]:
    of_modules = (
        getattr(module, "__file__", None) for name, module in sys.modules.items()
        if name.partition(".")[0] not in sys.stdlib_module_names.union(_OWN)
    )  # fmt: skip
    found = [path for path in of_modules if type(path) is str and path.endswith(".py")]
    for folder in sys.path:
        with suppress(OSError):
            found += [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".pth")]  # noqa: PTH208
    return found
