"""The switch: `PASTURE=off` in the environment means plain Python. Each entry asks here first.

Owns the words and the variables. `PASTURE_POLICY=off` counts as well. Invariant: the check has no
effect and does not raise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "PASTURE"
WORDS = ("0", "off", "false", "no")
"""Words for off, in any case."""

_POLICY = "PASTURE_POLICY"


def why(environ: Mapping[str, str] = os.environ) -> str | None:
    """The variable that switches pasture off, as a reason, or None."""
    if _is_off(environ, VARIABLE):
        return f"{VARIABLE}={environ[VARIABLE].strip()} is set"
    if _is_off(environ, _POLICY):
        return f"{_POLICY}={environ[_POLICY].strip()} is set; use {VARIABLE}=off"
    return None


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether an environment asks for a seal, by `PASTURE=seal` for instance."""
    return bool(environ.get(VARIABLE, "").strip()) and why(environ) is None


def _is_off(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in WORDS
