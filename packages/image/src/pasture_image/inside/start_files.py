"""What start files have done before the load: `.pth` lines, `sitecustomize` and what they import.

They run once, at the build. Owns what of that programs get, and what is compared: variables that
they have set, and the names of variables in their texts.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from importlib.machinery import PathFinder

from pasture.errors import ImageFailed
from pasture_image.inside import environment
from pasture_image.inside.start_variables import is_uncounted

MODULES = ("sitecustomize", "usercustomize")
_OWN = ("pasture", "pasture_image", "pasture_auto", "__main__")
_NAME = re.compile(rb"""["'${%]([A-Za-z_][A-Za-z0-9_]{0,63})""")


def begin_again(environ: int) -> set[str]:
    """Start again where start files name variables of a file (`environment`); returns `names`."""
    data, started = bytearray(os.fstat(environ).st_size), environment.own()
    os.preadv(environ, [data], 0)
    found = {os.fsdecode(name) for name in re.findall(rb"(?:^|\0)([^=\0]+)=", data)}
    data[:] = bytes(len(data))  # values that no module reads come into no image
    named = names()
    if more := named & found - started.keys():
        given = environment.read(environ)
        os.execve(sys.executable, sys.orig_argv, {**started, **{n: given[n] for n in more}})
    return named


def set_variables() -> dict[str, str | None]:
    """Variables that this process was not started with so, as they are now; None: not set."""
    started, now = environment.own() | environment.coerced(), {**os.environ}
    return {n: now.get(n) for n in started.keys() | now.keys() if started.get(n) != now.get(n)}


def require_run() -> None:
    """Raise ImageFailed if `sitecustomize` has failed: a program's may not."""
    if MODULES[0] not in sys.modules and not sys.flags.no_site and PathFinder.find_spec(MODULES[0]):
        raise ImageFailed(
            f"{MODULES[0]} fails here", hint="see above; --env NAME has it find a variable"
        )


def names(*, of_modules: bool = True) -> set[str]:
    """Variables that start files may have read.

    Args:
        of_modules: whether those count that the modules name which are loaded now.
    """
    paths = [spec.origin for name in MODULES if (spec := PathFinder.find_spec(name))]
    for folder in sys.path:
        with suppress(OSError):
            paths += [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".pth")]  # noqa: PTH208
    for name, module in sys.modules.items() if of_modules else ():
        if name.partition(".")[0] not in sys.stdlib_module_names.union(_OWN):
            paths.append(getattr(module, "__file__", None))
    found = set[str]()
    for path in paths:
        if type(path) is str and path.endswith((".py", ".pth")):
            with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - as elsewhere here
                found.update(map(os.fsdecode, _NAME.findall(file.read())))
    return {name for name in found if not is_uncounted(name)}
