"""What a policy promises and could not do in a run. Pure: log, report and sample to sentences.

A figure under a policy's name that the policy had no part in misleads more than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pasture.proc.sampler import Sample
from pasture.sealing.policy import Policy

# What the server prints (pasture.refork, pasture.servers.gunicorn).
_NO_REFORK = re.compile(r"pasture: no refork: (.+)")
_FAILED_REFORK = re.compile(r"pasture: refork to generation \d+ failed: (.+?); generation ")
_REFORKED = re.compile(r"pasture: all workers are of generation [1-9]")
_NO_WARM_UP = re.compile(r"pasture: probe: starting anew without the warm-up")
_DIFFERENCE = re.compile(r"pasture: probe: (.+)")
_NO_SEAL = re.compile(r"pasture: ((?:--reload|left out, since) .+): no seal")


def shortfalls(
    policy: Policy, final: Sample, report: Mapping[str, Any] | None, log: str
) -> tuple[str, ...]:
    """Sentences about what the policy could not do; none if it did all of it.

    Args:
        final: the sample after the load. A server that reforks has a mold from the start.
        report: what the server said of its seal, None if nothing.
        log: what it printed.
    """
    found = []
    if policy.refork and not final.molds:
        found.append(f"did not refork: {_reason(_NO_REFORK, log)}")
    elif policy.refork and not _REFORKED.search(log) and (why := _FAILED_REFORK.search(log)):
        found.append(f"did not refork: {why[1]}")
    elif policy.heap and not policy.refork and report is None:
        found.append(f"did not seal: {_reason(_NO_SEAL, log)}")
    if policy.warms_up and report is not None and _NO_WARM_UP.search(log):
        found.append(f"did not warm up, since its probe failed: {_reason(_DIFFERENCE, log)}")
    if policy.heap and report is not None and report.get("sealed") is False:
        found.append(f"did not seal: {report.get('reason') or 'not all steps were taken'}")
    return tuple(found)


def _reason(pattern: re.Pattern[str], log: str) -> str:
    said = pattern.search(log)
    return said[1].strip() if said else "the server did not say why"
