"""Requirements of experiments that may be missing: nginx, httperf, perf, valgrind; modules.

Owns where they are looked for: on the PATH, then where the repository's `tools/services` has
unpacked them. Nothing is installed or fetched here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from pasture.errors import NotMeasurable

PACKAGES: Mapping[str, str] = MappingProxyType(
    {"nginx": "nginx-light", "httperf": "httperf", "perf": "linux-perf", "valgrind": "valgrind"}
)
"""Debian's package of each program."""


def find(name: str) -> str:
    """The path of a program.

    Raises:
        NotMeasurable: it is not installed; the hint says how it would be.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    unpacked = cache / "pasture" / "services" / name / name
    found = shutil.which(name) or (str(unpacked) if unpacked.exists() else None)
    if found is None:
        raise NotMeasurable(f"{name} is not installed", hint=f"apt install {PACKAGES[name]}")
    return found


def require_modules(modules: Sequence[str]) -> None:
    """Check that modules that the processes of an experiment import are installed.

    Raises:
        NotMeasurable: they are not.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise NotMeasurable(
            f"{' and '.join(missing)} not installed", hint="pip install 'pasture[lab]'"
        )
