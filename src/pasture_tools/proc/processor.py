"""The processor's model, as the kernel names it (proc_cpuinfo(5))."""

from __future__ import annotations

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def model() -> str | None:
    """The model's name; None if the kernel does not report it, as on aarch64."""
    try:
        lines = _CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)
