"""The privileges that this process lacks for a look into another one: hints for NoPrivilege.

Source: capabilities(7), ptrace(2) on access to /proc, user_namespaces(7).
"""

from __future__ import annotations

import os
from pathlib import Path

_NUMBERS = {"CAP_SYS_PTRACE": 19, "CAP_PERFMON": 38}


def hint(capability: str, otherwise: str, proc: Path = Path("/proc")) -> str:
    """The hint for root; `otherwise` is the hint for another user."""
    try:
        status = (proc / "self" / "status").read_text()
    except OSError:
        return otherwise
    if os.geteuid() != 0:
        return otherwise
    held = int(status.partition("CapEff:")[2].split()[0], 16)
    if not held >> _NUMBERS[capability] & 1:
        short = capability.removeprefix("CAP_")
        return (
            f"this root lacks {capability}: docker run --cap-add {short}, or "
            f"securityContext.capabilities.add: [{short}] of the container in Kubernetes"
        )
    return (
        f"this root has {capability}, but another user namespace or a security module refuses: "
        "run pasture on the host, or in the process's own container"
    )
