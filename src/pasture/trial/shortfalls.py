"""What a policy promises and could not do in a run. Pure: log, report and sample to sentences.

A figure under a policy's name that the policy had no part in misleads more than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pasture.log_lines import (
    NO_REFORK,
    NO_SEAL,
    PROBE,
    REFORK_FAILED,
    REFORKED,
    STARTING_ANEW,
    THE_WARM_UP,
    find,
)
from pasture.proc.sampler import Sample
from pasture.sealing.policy import Policy


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
        found.append(f"did not refork: {_reason(NO_REFORK, log)}")
    elif policy.refork and not find(REFORKED, log) and (failed := find(REFORK_FAILED, log)):
        found.append(f"did not refork: {failed[1]}")
    elif policy.heap and not policy.refork and report is None:
        found.append(f"did not seal: {_reason(NO_SEAL, log)}")
    if policy.warms_up and report is not None and find(STARTING_ANEW, log) == (THE_WARM_UP,):
        found.append(f"did not warm up, since its probe failed: {_reason(PROBE, log)}")
    if policy.heap and report is not None and report.get("sealed") is False:
        found.append(f"did not seal: {report.get('reason') or 'not all steps were taken'}")
    return tuple(found)


def _reason(line: str, log: str) -> str:
    said = find(line, log)
    return "the server did not say why" if said is None else said[0]
