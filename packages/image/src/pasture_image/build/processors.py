"""Which processors an image is for: those of the build's model, or any with its features.

Libraries choose functions by CPUID when they are loaded, and the choice lies in the image.
"""

from __future__ import annotations

from collections.abc import Sequence

from pasture.errors import ImageFailed

_ANY = 0
"""Of `host_rule` of src/stub/host.h."""
_MODEL, _LAST = 3, 9
"""Facts by their place in src/stub/host.c."""
NATIVE = "native"


def rules(cpu: str, found: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """What an image asks of a machine: rule and value of each fact.

    Args:
        cpu: `NATIVE`, or "" for a processor of the build's model.
        found: the same of the machine of the build.

    Raises:
        ImageFailed: this kind of machine has models alone.
    """
    needed = list(found)
    if cpu and len(found) <= _LAST:
        raise ImageFailed("--cpu is for x86-64", hint="omit it")
    if cpu:
        needed[_MODEL] = (_ANY, 0)
    return tuple(needed)
